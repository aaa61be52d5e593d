SELECT pg_is_in_recovery() AS standby, l.lease_name, l.owner_token, l.fence_token, l.holder, l.ttl_ms, l.wanted,
    (extract(epoch FROM l.leased_until) * 1000000)::bigint AS until_us,
    (extract(epoch FROM l.leased_until - clock_timestamp()) * 1000000)::bigint AS remaining_us,
    (extract(epoch FROM l.acquired_at) * 1000000)::bigint AS acquired_us,
    (extract(epoch FROM l.renewed_at) * 1000000)::bigint AS renewed_us
FROM fencepost_leases AS l WHERE l.lease_name > $1::text ORDER BY l.lease_name LIMIT $2::bigint
