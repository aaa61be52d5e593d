-- Locked first and judged outside, by the clock after a wait for the lock. $5 bounds that wait: a statement whose client is gone must not wait
-- for ever. A notification makes commits queue up: only when somebody waits.
WITH locked AS MATERIALIZED (
    SELECT lease_name, leased_until, wanted FROM fencepost_leases
    WHERE lease_name = $1::text AND owner_token = $2::text AND fence_token = $3::bigint AND leased_until IS NOT NULL
        AND (SELECT set_config('lock_timeout', $5::text, true)) IS NOT NULL
    FOR NO KEY UPDATE
), released AS (
    UPDATE fencepost_leases AS l SET leased_until = NULL, wanted = false
    FROM (SELECT lease_name, leased_until, wanted, clock_timestamp() AS now FROM locked) AS held
    WHERE l.lease_name = held.lease_name AND held.leased_until > held.now
    RETURNING l.lease_name, held.wanted
)
SELECT EXISTS (SELECT FROM released) AS changed,
    coalesce((SELECT wanted FROM released), false) AS was_wanted,
    coalesce((SELECT pg_notify($4::text, lease_name)::text FROM released WHERE wanted), '') AS notified,
    l.lease_name, l.owner_token, l.fence_token, l.holder, l.ttl_ms, l.wanted,
    (extract(epoch FROM l.leased_until) * 1000000)::bigint AS until_us,
    (extract(epoch FROM l.leased_until - clock_timestamp()) * 1000000)::bigint AS remaining_us,
    (extract(epoch FROM l.acquired_at) * 1000000)::bigint AS acquired_us,
    (extract(epoch FROM l.renewed_at) * 1000000)::bigint AS renewed_us
FROM (SELECT) AS one LEFT JOIN fencepost_leases AS l ON l.lease_name = $1::text
