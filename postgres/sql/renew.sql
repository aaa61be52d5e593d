-- A row that another transaction has locked is skipped and answered as busy: it must not hold up the beat of all the others.
WITH asked AS MATERIALIZED (
    SELECT name, owner, fence, position
    FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS a (name, owner, fence, position)
), locked AS MATERIALIZED (
    SELECT l.lease_name, l.leased_until
    FROM fencepost_leases AS l
    WHERE (l.lease_name, l.owner_token, l.fence_token) IN (SELECT name, owner, fence FROM asked)
        AND l.leased_until > clock_timestamp()
    FOR NO KEY UPDATE OF l SKIP LOCKED
), renewed AS (
    UPDATE fencepost_leases AS l
    SET leased_until = locked.now + l.ttl_ms * interval '1 millisecond', renewed_at = locked.now
    FROM (SELECT lease_name, leased_until, clock_timestamp() AS now FROM locked) AS locked
    WHERE l.lease_name = locked.lease_name AND locked.leased_until > locked.now
    RETURNING l.lease_name, l.owner_token, l.fence_token, l.leased_until
)
SELECT asked.position, renewed.leased_until AS renewed_until,
    coalesce(l.owner_token, ''), coalesce(l.fence_token, 0), coalesce(l.holder, ''), l.leased_until,
    (extract(epoch FROM l.leased_until - clock_timestamp()) * 1000000)::bigint AS remaining_us
FROM asked
LEFT JOIN renewed ON renewed.lease_name = asked.name AND renewed.owner_token = asked.owner AND renewed.fence_token = asked.fence
LEFT JOIN fencepost_leases AS l ON l.lease_name = asked.name
