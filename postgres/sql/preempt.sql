-- Locked first: the wait for a fenced write in progress must not be taken off the new lease. $4 is the TTL in ms; 0 leaves the lease free.
WITH locked AS MATERIALIZED (
    SELECT lease_name, wanted FROM fencepost_leases
    WHERE lease_name = $1 AND fence_token = $2 AND fence_token < 9223372036854775807
    FOR UPDATE
), preempted AS (
    UPDATE fencepost_leases AS l
    SET owner_token = $3, fence_token = l.fence_token + 1, holder = $5, ttl_ms = $4::bigint,
        leased_until = CASE WHEN $4::bigint > 0 THEN locked.now + $4::bigint * interval '1 millisecond' END,
        acquired_at = locked.now, renewed_at = locked.now,
        wanted = false, preempted_by = $6, preempt_reason = $7
    FROM (SELECT lease_name, wanted, clock_timestamp() AS now FROM locked) AS locked
    WHERE l.lease_name = locked.lease_name
    RETURNING l.fence_token, l.leased_until, locked.wanted
)
SELECT fence_token, leased_until,
    coalesce(CASE WHEN wanted AND $4::bigint = 0 THEN pg_notify($8::text, $1::text)::text END, '') AS notified
FROM preempted
