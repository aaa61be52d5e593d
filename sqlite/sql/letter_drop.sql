DELETE FROM fencepost_dead WHERE id = ?1
RETURNING run_id, lease_name, fence_token, holder
