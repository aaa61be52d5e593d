-- No row comes back when the letter is not there, not of this lease or adopted, or when the id of the run is taken.
INSERT INTO fencepost_runs (run_id, lease_name, owner_token, fence_token, holder, attempt, slot, status, result, error,
    started_at, updated_at, finished_at, adopted_from, actor)
SELECT ?1, ?2, ?3, ?4, ?6,
    1 + CASE WHEN letter.slot IS NOT NULL
        THEN coalesce((SELECT max(one.attempt) FROM fencepost_runs AS one WHERE one.lease_name = ?2 AND one.slot = letter.slot), 0)
        ELSE coalesce((SELECT CASE WHEN last.status IN ('abandoned', 'stalled', 'partial') THEN last.attempt END
            FROM fencepost_runs AS last WHERE last.lease_name = ?2 AND last.slot IS NULL ORDER BY last.seq DESC LIMIT 1), 0) END,
    letter.slot, letter.status, letter.result, letter.error, clock.now, clock.now, clock.now, letter.id, ?7
FROM (SELECT CAST(round(unixepoch('subsec') * 1000) AS INTEGER) AS now) AS clock
CROSS JOIN fencepost_dead AS letter
WHERE letter.id = ?5 AND letter.lease_name = ?2 AND letter.adopted_at IS NULL
ON CONFLICT DO NOTHING
RETURNING seq, run_id, lease_name, owner_token, fence_token, holder, attempt, slot, missed, status, progress, result, error,
    started_at, updated_at, finished_at, coalesce(replaced_by, 0) AS replaced_by, coalesce(adopted_from, 0) AS adopted_from, actor, 0 AS lost
