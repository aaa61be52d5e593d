-- The guard, and with it how long the transaction may idle: what the lease has left, at least $2 ms.
WITH l AS MATERIALIZED (
    SELECT lease_name, owner_token, fence_token, holder, ttl_ms, leased_until, acquired_at, renewed_at, wanted
    FROM fencepost_leases WHERE lease_name = $1 FOR KEY SHARE
)
SELECT l.lease_name, l.owner_token, l.fence_token, l.holder, l.ttl_ms, l.leased_until, l.acquired_at, l.renewed_at, l.wanted,
    (extract(epoch FROM l.leased_until - clock_timestamp()) * 1000000)::bigint AS remaining_us,
    set_config('idle_in_transaction_session_timeout',
        least(greatest(coalesce(extract(epoch FROM l.leased_until - clock_timestamp()) * 1000, 0), $2::bigint), 2147483647)::bigint::text, true)
FROM l
