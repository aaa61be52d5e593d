-- What the trigger of the leases does, for a file whose trigger somebody dropped.
UPDATE fencepost_runs SET status = 'abandoned', replaced_by = ?2,
    updated_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER), finished_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER)
WHERE lease_name = ?1 AND status = 'running' AND fence_token < ?2
