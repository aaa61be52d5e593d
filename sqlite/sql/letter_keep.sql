-- The same completion is kept once. An update that changes nothing makes RETURNING give the row that was there.
INSERT INTO fencepost_dead (run_id, lease_name, fence_token, current_fence, reason, holder, slot, status, result, error, digest, at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, CAST(round(unixepoch('subsec') * 1000) AS INTEGER))
ON CONFLICT (run_id, digest) DO UPDATE SET digest = digest
RETURNING id
