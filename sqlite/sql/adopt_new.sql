INSERT INTO fencepost_leases (lease_name, owner_token, fence_token)
SELECT CAST(old.lease_name AS TEXT), CAST(coalesce(old.owner_token, '') AS TEXT), old.fence_token
FROM "adopted_table" AS old
WHERE old.fence_token >= 1
    AND NOT EXISTS (SELECT 1 FROM fencepost_leases WHERE lease_name = CAST(old.lease_name AS TEXT))
