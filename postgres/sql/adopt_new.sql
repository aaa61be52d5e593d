INSERT INTO fencepost_leases (lease_name, owner_token, fence_token)
SELECT old.lease_name::text, coalesce(old.owner_token::text, ''), old.fence_token
FROM "adopted_table" AS old
WHERE old.fence_token >= 1
ON CONFLICT DO NOTHING
