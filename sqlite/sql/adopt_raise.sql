UPDATE fencepost_leases
SET owner_token = CAST(old.owner_token AS TEXT), fence_token = old.fence_token, leased_until = NULL, preempted_by = NULL, preempt_reason = NULL
FROM "adopted_table" AS old
WHERE fencepost_leases.lease_name = CAST(old.lease_name AS TEXT) AND old.fence_token > fencepost_leases.fence_token
