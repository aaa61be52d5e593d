SELECT l.lease_name, l.owner_token, l.fence_token, l.holder, l.ttl_ms, l.leased_until, l.acquired_at, l.renewed_at, l.wanted,
    (extract(epoch FROM l.leased_until - clock_timestamp()) * 1000000)::bigint AS remaining_us
FROM fencepost_leases AS l WHERE l.lease_name = $1
