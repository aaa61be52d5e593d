INSERT INTO fencepost_leases (lease_name, owner_token, fence_token, holder, ttl_ms, leased_until, acquired_at, renewed_at)
SELECT ?1, ?2, 1, ?3, ?4, now + ?4, now, now
FROM (SELECT CAST(round(unixepoch('subsec') * 1000) AS INTEGER) AS now)
WHERE NOT EXISTS (SELECT 1 FROM fencepost_leases WHERE lease_name = ?1)
RETURNING fence_token, leased_until
