-- The time, and the newest attempt of the newest slot up to ?2, or none.
SELECT clock.now, coalesce(r.seq, 0) AS seq, coalesce(r.run_id, '') AS run_id, coalesce(r.lease_name, '') AS lease_name,
    coalesce(r.owner_token, '') AS owner_token, coalesce(r.fence_token, 0) AS fence_token, coalesce(r.holder, '') AS holder,
    coalesce(r.attempt, 0) AS attempt, r.slot, coalesce(r.missed, 0) AS missed, coalesce(r.status, '') AS status,
    NULL AS progress, NULL AS result, coalesce(r.error, '') AS error,
    coalesce(r.started_at, 0) AS started_at, coalesce(r.updated_at, 0) AS updated_at, r.finished_at,
    coalesce(r.replaced_by, 0) AS replaced_by, coalesce(r.adopted_from, 0) AS adopted_from, coalesce(r.actor, '') AS actor,
    coalesce(r.status = 'running' AND coalesce(l.leased_until <= clock.now, 1), 0) AS lost
FROM (SELECT CAST(round(unixepoch('subsec') * 1000) AS INTEGER) AS now) AS clock
LEFT JOIN (
    SELECT seq, run_id, lease_name, owner_token, fence_token, holder, attempt, slot, missed, status, error,
        started_at, updated_at, finished_at, replaced_by, adopted_from, actor
    FROM fencepost_runs
    WHERE lease_name = ?1 AND slot <= ?2
    ORDER BY slot DESC, attempt DESC LIMIT 1
) AS r ON true
LEFT JOIN fencepost_leases AS l ON r.status = 'running' AND l.lease_name = r.lease_name AND l.owner_token = r.owner_token AND l.fence_token = r.fence_token
