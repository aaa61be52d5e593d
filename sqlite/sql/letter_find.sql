SELECT id, run_id, lease_name, fence_token, current_fence, reason, holder, slot, status, result, error, at,
    coalesce(adopted_by, '') AS adopted_by, coalesce(adopted_as, '') AS adopted_as, adopted_at
FROM fencepost_dead
WHERE id = ?1
