-- The newest attempt of one slot, and the time.
SELECT pg_is_in_recovery() AS standby, (extract(epoch FROM clock.now) * 1000000)::bigint AS now_us, r.seq IS NOT NULL AS found,
    coalesce(r.seq, 0) AS seq, coalesce(r.run_id, '') AS run_id, coalesce(r.lease_name, '') AS lease_name, coalesce(r.owner_token, '') AS owner_token,
    coalesce(r.fence_token, 0) AS fence_token, coalesce(r.holder, '') AS holder, coalesce(r.attempt, 0) AS attempt,
    (extract(epoch FROM r.slot) * 1000)::bigint AS slot_ms, coalesce(r.missed, 0) AS missed, coalesce(r.status, '') AS status,
    NULL::text AS progress, NULL::text AS result, coalesce(r.error, '') AS error,
    coalesce((extract(epoch FROM r.started_at) * 1000000)::bigint, 0) AS started_us, coalesce((extract(epoch FROM r.updated_at) * 1000000)::bigint, 0) AS updated_us,
    (extract(epoch FROM r.finished_at) * 1000000)::bigint AS finished_us,
    coalesce(r.replaced_by, 0) AS replaced_by, coalesce(r.adopted_from, 0) AS adopted_from, coalesce(r.actor, '') AS actor,
    coalesce(r.status = 'running' AND (l.leased_until > clock_timestamp()) IS NOT TRUE, false) AS lost
FROM (SELECT clock_timestamp() AS now) AS clock
LEFT JOIN LATERAL (
    SELECT seq, run_id, lease_name, owner_token, fence_token, holder, attempt, slot, missed, status, error,
        started_at, updated_at, finished_at, replaced_by, adopted_from, actor
    FROM fencepost_runs
    WHERE lease_name = $1::text AND slot = timestamptz 'epoch' + $2::bigint * interval '1 millisecond'
    ORDER BY slot DESC, attempt DESC LIMIT 1
) AS r ON true
LEFT JOIN fencepost_leases AS l ON r.status = 'running' AND l.lease_name = r.lease_name AND l.owner_token = r.owner_token AND l.fence_token = r.fence_token
