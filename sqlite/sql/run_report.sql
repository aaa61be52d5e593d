UPDATE fencepost_runs SET progress = ?5, updated_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER)
WHERE run_id = ?1 AND lease_name = ?2 AND owner_token = ?3 AND fence_token = ?4 AND status = 'running'
RETURNING seq
