-- Locked first: the wait for a fenced write in progress must not be taken off the new lease. $9 bounds that wait: a statement whose client is
-- gone must not wait for ever and then preempt for nobody. $4 is the TTL in ms; 0 leaves the lease free.
WITH locked AS MATERIALIZED (
    SELECT lease_name, wanted FROM fencepost_leases
    WHERE lease_name = $1::text AND fence_token = $2::bigint AND fence_token < 9223372036854775807
        AND (SELECT set_config('lock_timeout', $9::text, true)) IS NOT NULL
    FOR UPDATE
), preempted AS (
    UPDATE fencepost_leases AS l
    SET owner_token = $3::text, fence_token = l.fence_token + 1, holder = $5::text, ttl_ms = $4::bigint,
        leased_until = CASE WHEN $4::bigint > 0 THEN taken.now + $4::bigint * interval '1 millisecond' END,
        acquired_at = taken.now, renewed_at = taken.now,
        wanted = false, preempted_by = $6::text, preempt_reason = $7::text
    FROM (SELECT lease_name, wanted, clock_timestamp() AS now FROM locked) AS taken
    WHERE l.lease_name = taken.lease_name
    RETURNING l.lease_name, l.fence_token, l.leased_until, taken.wanted
)
SELECT EXISTS (SELECT FROM preempted) AS changed,
    coalesce((SELECT (extract(epoch FROM leased_until) * 1000000)::bigint FROM preempted), 0) AS granted_until_us,
    coalesce((SELECT (extract(epoch FROM leased_until - clock_timestamp()) * 1000000)::bigint FROM preempted), 0) AS granted_us,
    coalesce((SELECT pg_notify($8::text, lease_name)::text FROM preempted WHERE wanted), '') AS notified,
    l.lease_name, l.owner_token, l.fence_token, l.holder, l.ttl_ms, l.wanted,
    (extract(epoch FROM l.leased_until) * 1000000)::bigint AS until_us,
    (extract(epoch FROM l.leased_until - clock_timestamp()) * 1000000)::bigint AS remaining_us,
    (extract(epoch FROM l.acquired_at) * 1000000)::bigint AS acquired_us,
    (extract(epoch FROM l.renewed_at) * 1000000)::bigint AS renewed_us
FROM (SELECT) AS one LEFT JOIN fencepost_leases AS l ON l.lease_name = $1::text
