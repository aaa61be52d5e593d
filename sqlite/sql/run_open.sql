-- The open run of a lease.
SELECT r.seq, r.run_id, r.lease_name, r.owner_token, r.fence_token, r.holder, r.attempt, r.slot, r.missed, r.status, NULL AS progress, NULL AS result, r.error,
    r.started_at, r.updated_at, r.finished_at, coalesce(r.replaced_by, 0) AS replaced_by, coalesce(r.adopted_from, 0) AS adopted_from, r.actor,
    r.status = 'running' AND coalesce(l.leased_until <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER), 1) AS lost
FROM fencepost_runs AS r
LEFT JOIN fencepost_leases AS l ON r.status = 'running' AND l.lease_name = r.lease_name AND l.owner_token = r.owner_token AND l.fence_token = r.fence_token
WHERE r.lease_name = ?1 AND r.status = 'running'
