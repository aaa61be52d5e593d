INSERT INTO fencepost_events (lease_name, kind, fence_token, holder, actor, reason, at)
VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp())
