WITH released AS (
    UPDATE fencepost_leases SET leased_until = NULL
    WHERE lease_name = $1 AND owner_token = $2 AND fence_token = $3 AND leased_until > clock_timestamp()
    RETURNING lease_name, wanted
)
SELECT EXISTS (SELECT 1 FROM released) AS changed,
    -- A notification costs every commit a queue's lock: only when somebody waits.
    coalesce((SELECT pg_notify($4::text, lease_name)::text FROM released WHERE wanted), '') AS notified,
    coalesce((SELECT wanted FROM released), false) AS wanted_then,
    l.lease_name, l.owner_token, l.fence_token, l.holder, l.ttl_ms, l.leased_until, l.acquired_at, l.renewed_at, l.wanted,
    (extract(epoch FROM l.leased_until - clock_timestamp()) * 1000000)::bigint AS remaining_us
FROM (SELECT 1) AS one LEFT JOIN fencepost_leases AS l ON l.lease_name = $1
