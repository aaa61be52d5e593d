-- What New and Diagnose need to know of the server and the session.
SHOW VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'read_only', 'super_read_only', 'innodb_read_only',
    'transaction_read_only', 'tx_read_only', 'autocommit', 'log_bin', 'binlog_format', 'log_bin_trust_function_creators', 'time_zone',
    'system_time_zone', 'transaction_isolation', 'tx_isolation', 'sysdate_is_now', 'wait_timeout', 'idle_transaction_timeout',
    'innodb_rollback_on_timeout', 'innodb_flush_log_at_trx_commit', 'sync_binlog', 'wsrep_on', 'max_allowed_packet',
    'innodb_lock_wait_timeout', 'gtid_mode', 'group_replication_group_name', 'sql_mode', 'completion_type', 'port', 'hostname')
