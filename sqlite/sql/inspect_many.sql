-- The leases whose names are in the JSON array ?1.
SELECT lease_name, owner_token, fence_token, holder, ttl_ms, leased_until, acquired_at, renewed_at, wanted,
    CAST(round(unixepoch('subsec') * 1000) AS INTEGER) AS now
FROM fencepost_leases WHERE lease_name IN (SELECT value FROM json_each(?1))
