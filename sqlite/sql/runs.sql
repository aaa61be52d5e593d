-- ?1 is the seq to begin before, ?3 a JSON array of the statuses or NULL, ?4 whether payloads are wanted.
SELECT r.seq, r.run_id, r.lease_name, r.owner_token, r.fence_token, r.holder, r.attempt, r.slot, r.missed, r.status, CASE WHEN ?4 THEN r.progress END AS progress, CASE WHEN ?4 THEN r.result END AS result, r.error,
    r.started_at, r.updated_at, r.finished_at, coalesce(r.replaced_by, 0) AS replaced_by, coalesce(r.adopted_from, 0) AS adopted_from, r.actor,
    r.status = 'running' AND coalesce(l.leased_until <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER), 1) AS lost
FROM fencepost_runs AS r
LEFT JOIN fencepost_leases AS l ON r.status = 'running' AND l.lease_name = r.lease_name AND l.owner_token = r.owner_token AND l.fence_token = r.fence_token
WHERE r.seq < ?1 AND (?3 IS NULL OR r.status IN (SELECT value FROM json_each(?3)))
ORDER BY r.seq DESC LIMIT ?2
