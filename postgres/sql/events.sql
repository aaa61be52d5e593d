SELECT id, lease_name, kind, fence_token, holder, actor, reason, at
FROM fencepost_events WHERE id > $2 AND ($1 = '' OR lease_name = $1) ORDER BY id LIMIT $3
