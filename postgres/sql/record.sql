INSERT INTO fencepost_events (lease_name, kind, fence_token, holder, actor, reason, at)
VALUES ($1::text, $2::text, $3::bigint, $4::text, $5::text, $6::text, clock_timestamp())
