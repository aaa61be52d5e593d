UPDATE fencepost_dead SET adopted_by = ?2, adopted_as = ?3, adopted_at = (SELECT started_at FROM fencepost_runs WHERE run_id = ?3)
WHERE id = ?1
RETURNING run_id
