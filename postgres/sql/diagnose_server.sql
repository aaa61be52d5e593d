SELECT current_setting('server_version'), current_setting('TimeZone'), current_setting('default_transaction_isolation'),
    current_setting('transaction_read_only'), current_setting('idle_in_transaction_session_timeout'), pg_is_in_recovery(),
    (SELECT count(*) FROM pg_stat_replication)::int, current_setting('synchronous_standby_names'),
    coalesce((SELECT max(extract(epoch FROM clock_timestamp() - xact_start) / 60) FROM pg_stat_activity
        WHERE backend_type = 'client backend'), 0)::int
