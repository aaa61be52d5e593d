-- Locked first and judged outside: inside, the clock would be read before a wait for the lock. FOR KEY SHARE locks all versions of
-- the row up to the newest, but shows the one of the snapshot when only a renewal or a release came after it: newest says whether the snapshot is
-- this statement's own.
WITH l AS MATERIALIZED (
    SELECT lease_name, owner_token, fence_token, holder, ttl_ms, leased_until, acquired_at, renewed_at, wanted
    FROM fencepost_leases WHERE lease_name = $1::text FOR KEY SHARE
)
SELECT current_setting('transaction_isolation') = 'read committed' AS newest,
    l.lease_name, l.owner_token, l.fence_token, l.holder, l.ttl_ms, l.wanted,
    (extract(epoch FROM l.leased_until) * 1000000)::bigint AS until_us,
    (extract(epoch FROM l.leased_until - clock_timestamp()) * 1000000)::bigint AS remaining_us,
    (extract(epoch FROM l.acquired_at) * 1000000)::bigint AS acquired_us,
    (extract(epoch FROM l.renewed_at) * 1000000)::bigint AS renewed_us
FROM (SELECT) AS one LEFT JOIN l ON true
