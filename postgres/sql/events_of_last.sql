SELECT id, lease_name, kind, fence_token, holder, actor, reason, (extract(epoch FROM at) * 1000000)::bigint AS at_us
FROM fencepost_events WHERE id > $1::bigint AND lease_name = $3::text ORDER BY id DESC LIMIT $2::bigint
