SELECT id, lease_name, kind, fence_token, holder, actor, reason, at
FROM (SELECT id, lease_name, kind, fence_token, holder, actor, reason, at
    FROM fencepost_events WHERE id > $2 AND ($1::text = '' OR lease_name = $1::text) ORDER BY id DESC LIMIT $3) AS newest
ORDER BY id
