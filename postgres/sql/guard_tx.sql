-- The guard, and with it how long the transaction may idle before the server ends it: the lease's TTL, at least $2 ms, and no longer than
-- the session allows anyway.
WITH l AS MATERIALIZED (
    SELECT lease_name, owner_token, fence_token, holder, ttl_ms, leased_until, acquired_at, renewed_at, wanted
    FROM fencepost_leases WHERE lease_name = $1::text FOR KEY SHARE
)
SELECT current_setting('transaction_isolation') = 'read committed' AS newest,
    set_config('idle_in_transaction_session_timeout', least(
        nullif((extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval) * 1000)::bigint, 0),
        greatest(coalesce(l.ttl_ms, 0), $2::bigint), 2147483647)::text, true) AS idle,
    l.lease_name, l.owner_token, l.fence_token, l.holder, l.ttl_ms, l.wanted,
    (extract(epoch FROM l.leased_until) * 1000000)::bigint AS until_us,
    (extract(epoch FROM l.leased_until - clock_timestamp()) * 1000000)::bigint AS remaining_us,
    (extract(epoch FROM l.acquired_at) * 1000000)::bigint AS acquired_us,
    (extract(epoch FROM l.renewed_at) * 1000000)::bigint AS renewed_us
FROM (SELECT) AS one LEFT JOIN l ON true
