SELECT pg_is_in_recovery(), current_setting('transaction_read_only')
