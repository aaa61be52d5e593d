-- A row that another transaction has locked is skipped and answered as busy: it must not hold up the beat of all the others. What was
-- renewed and what was not are two lists and not one outer join: without statistics on the arrays the server would plan
-- that join as a loop in a loop.
WITH asked AS MATERIALIZED (
    SELECT name, owner, fence FROM unnest($1::text[], $2::text[], $3::bigint[]) AS a (name, owner, fence)
), locked AS MATERIALIZED (
    SELECT l.lease_name, l.leased_until
    FROM asked JOIN fencepost_leases AS l ON l.lease_name = asked.name AND l.owner_token = asked.owner AND l.fence_token = asked.fence
    WHERE l.leased_until > clock_timestamp()
    FOR NO KEY UPDATE OF l SKIP LOCKED
), renewed AS (
    UPDATE fencepost_leases AS l
    SET leased_until = live.now + l.ttl_ms * interval '1 millisecond', renewed_at = live.now
    FROM (SELECT lease_name, leased_until, clock_timestamp() AS now FROM locked) AS live
    WHERE l.lease_name = live.lease_name AND live.leased_until > live.now
    RETURNING l.lease_name, l.owner_token, l.fence_token, l.holder, l.leased_until
)
SELECT true AS renewed, lease_name, owner_token, fence_token, holder,
    (extract(epoch FROM leased_until) * 1000000)::bigint AS until_us, 1::bigint AS remaining_us
FROM renewed
UNION ALL
SELECT false, l.lease_name, l.owner_token, l.fence_token, l.holder,
    (extract(epoch FROM l.leased_until) * 1000000)::bigint,
    (extract(epoch FROM l.leased_until - clock_timestamp()) * 1000000)::bigint
FROM fencepost_leases AS l
WHERE l.lease_name IN (SELECT name FROM asked) AND l.lease_name NOT IN (SELECT lease_name FROM renewed)
