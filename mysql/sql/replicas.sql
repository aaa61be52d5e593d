-- Sessions that feed replicas. Without the PROCESS right a user sees only its own.
SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'
