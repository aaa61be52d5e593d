SELECT current_setting('server_version') AS version, current_setting('TimeZone') AS zone, current_setting('default_transaction_isolation') AS isolation,
    current_setting('idle_in_transaction_session_timeout') AS idle, current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS synchronous_commit,
    (SELECT count(*) FROM pg_stat_replication)::int AS standbys, current_setting('synchronous_standby_names') AS synchronous,
    -- What keeps dead rows from being cleaned up: the oldest snapshot of this database, or a prepared transaction.
    greatest(
        coalesce((SELECT max(extract(epoch FROM clock_timestamp() - xact_start)) FROM pg_stat_activity
            WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() AND (datname = current_database() OR backend_xmin IS NOT NULL)), 0),
        coalesce((SELECT max(extract(epoch FROM clock_timestamp() - prepared)) FROM pg_prepared_xacts WHERE database = current_database()), 0))::bigint AS oldest_seconds,
    extract(epoch FROM clock_timestamp() AT TIME ZONE 'UTC')::bigint AS clock
