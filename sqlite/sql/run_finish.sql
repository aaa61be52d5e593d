UPDATE fencepost_runs SET status = ?5, result = ?6, error = ?7,
    updated_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER), finished_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER)
WHERE run_id = ?1 AND lease_name = ?2 AND owner_token = ?3 AND fence_token = ?4 AND status = 'running'
RETURNING seq, run_id, lease_name, owner_token, fence_token, holder, attempt, slot, missed, status, progress, result, error,
    started_at, updated_at, finished_at, coalesce(replaced_by, 0) AS replaced_by, coalesce(adopted_from, 0) AS adopted_from, actor, 0 AS lost
