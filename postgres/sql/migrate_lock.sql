-- Tried and not waited for: one that waits occupies a server connection of a transaction-mode pooler, and the one that migrates needs
-- a second. The transaction that has the lock idles while another connection migrates.
SELECT pg_try_advisory_xact_lock($1::bigint) AND set_config('idle_in_transaction_session_timeout', '0', true) IS NOT NULL
