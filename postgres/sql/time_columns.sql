SELECT a.attrelid::regclass::text || '.' || a.attname
FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1::text AND c.relname IN ($2::text, $3::text, $4::text, $5::text)
    AND a.attname IN ('leased_until', 'acquired_at', 'renewed_at', 'at', 'slot', 'started_at', 'updated_at', 'finished_at', 'adopted_at')
    AND format_type(a.atttypid, a.atttypmod) NOT IN ('timestamp(6) with time zone', 'timestamp with time zone')
