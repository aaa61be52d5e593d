UPDATE fencepost_leases AS l
SET owner_token = coalesce(old.owner_token::text, ''), fence_token = old.fence_token, leased_until = NULL, preempted_by = NULL, preempt_reason = NULL
FROM "adopted_table" AS old
WHERE l.lease_name = old.lease_name::text AND old.fence_token > l.fence_token
