-- The row is locked only when it is free or expired, so that a refused try writes nothing, not even a lock; and never waited
-- for: a statement that waits can outlive its client and acquire for nobody. Once expired by the clock before the lock it is expired after it, so only
-- the new end needs the clock after the lock.
WITH seen AS MATERIALIZED (
    SELECT owner_token, fence_token, holder, ttl_ms, wanted, leased_until
    FROM fencepost_leases WHERE lease_name = $1::text
), locked AS MATERIALIZED (
    SELECT lease_name, leased_until
    FROM fencepost_leases
    WHERE lease_name = $1::text AND fence_token < 9223372036854775807
        AND (leased_until IS NULL OR leased_until <= clock_timestamp())
    FOR UPDATE SKIP LOCKED
), granted AS (
    UPDATE fencepost_leases AS l
    SET owner_token = $2::text, fence_token = l.fence_token + 1, holder = $3::text, ttl_ms = $4::bigint,
        leased_until = free.now + $4::bigint * interval '1 millisecond', acquired_at = free.now, renewed_at = free.now,
        wanted = false, preempted_by = NULL, preempt_reason = NULL
    FROM (SELECT lease_name, leased_until, clock_timestamp() AS now FROM locked) AS free
    WHERE l.lease_name = free.lease_name
    RETURNING l.fence_token, l.leased_until, free.leased_until IS NOT NULL AS taken_over
), created AS (
    INSERT INTO fencepost_leases (lease_name, owner_token, fence_token, holder, ttl_ms, leased_until, acquired_at, renewed_at)
    SELECT $1::text, $2::text, 1, $3::text, $4::bigint, clock.now + $4::bigint * interval '1 millisecond', clock.now, clock.now
    FROM (SELECT clock_timestamp() AS now) AS clock
    WHERE NOT EXISTS (SELECT FROM seen)
    ON CONFLICT (lease_name) DO NOTHING
    RETURNING fence_token, leased_until, false AS taken_over
), won AS (
    SELECT fence_token, leased_until, taken_over FROM granted
    UNION ALL
    SELECT fence_token, leased_until, taken_over FROM created
)
SELECT true AS won, taken_over, $2::text AS owner_token, fence_token, $3::text AS holder, $4::bigint AS ttl_ms, false AS wanted,
    (extract(epoch FROM leased_until) * 1000000)::bigint AS until_us,
    (extract(epoch FROM leased_until - clock_timestamp()) * 1000000)::bigint AS remaining_us
FROM won
UNION ALL
SELECT false, false, owner_token, fence_token, holder, ttl_ms, wanted,
    (extract(epoch FROM leased_until) * 1000000)::bigint,
    (extract(epoch FROM leased_until - clock_timestamp()) * 1000000)::bigint
FROM seen WHERE NOT EXISTS (SELECT FROM won)
