-- No row comes back when the id, the slot or the lease's one open run is in the way. ?6 is the slot in ms, or NULL; ?7 how many attempts it
-- may have; ?9 whether it is skipped, and ?10 why.
INSERT INTO fencepost_runs (run_id, lease_name, owner_token, fence_token, holder, attempt, slot, missed, status, error, started_at, updated_at, finished_at)
SELECT ?1, ?2, ?3, ?4, ?5,
    1 + CASE WHEN ?6 IS NOT NULL THEN tried.attempt
        ELSE coalesce((SELECT CASE WHEN last.status IN ('abandoned', 'stalled', 'partial') THEN last.attempt END
            FROM fencepost_runs AS last WHERE last.lease_name = ?2 AND last.slot IS NULL ORDER BY last.seq DESC LIMIT 1), 0) END,
    ?6, ?8, CASE WHEN ?9 THEN 'skipped' ELSE 'running' END, ?10, clock.now, clock.now, CASE WHEN ?9 THEN clock.now END
FROM (SELECT CAST(round(unixepoch('subsec') * 1000) AS INTEGER) AS now) AS clock
CROSS JOIN (
    SELECT count(*) AS attempts, coalesce(max(one.attempt), 0) AS attempt, coalesce(max(one.status NOT IN ('abandoned', 'stalled')), 0) AS done
    FROM fencepost_runs AS one WHERE one.lease_name = ?2 AND one.slot = ?6
) AS tried
WHERE ?6 IS NULL OR ?6 <= clock.now AND tried.attempts < ?7 AND NOT tried.done
ON CONFLICT DO NOTHING
RETURNING seq, run_id, lease_name, owner_token, fence_token, holder, attempt, slot, missed, status, progress, result, error,
    started_at, updated_at, finished_at, coalesce(replaced_by, 0) AS replaced_by, coalesce(adopted_from, 0) AS adopted_from, actor, 0 AS lost
