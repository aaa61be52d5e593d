-- ?1 is the id to begin before, ?3 whether those that were adopted are wanted too, ?4 whether payloads are.
SELECT id, run_id, lease_name, fence_token, current_fence, reason, holder, slot, status, CASE WHEN ?4 THEN result END AS result, error, at,
    coalesce(adopted_by, '') AS adopted_by, coalesce(adopted_as, '') AS adopted_as, adopted_at
FROM fencepost_dead
WHERE lease_name = ?5 AND id < ?1 AND (?3 OR adopted_at IS NULL)
ORDER BY id DESC LIMIT ?2
