-- The greater fence wins. A lease that is live here is left alone: it was refused before, or was granted since with a fence of its own.
INSERT INTO fencepost_leases AS l (lease_name, owner_token, fence_token)
SELECT lease_name::text, owner_token::text, fence_token::bigint FROM "adopted_table"
ON CONFLICT (lease_name) DO UPDATE
SET owner_token = excluded.owner_token, fence_token = excluded.fence_token, leased_until = NULL, preempted_by = NULL, preempt_reason = NULL
WHERE excluded.fence_token > l.fence_token AND (l.leased_until IS NULL OR l.leased_until <= clock_timestamp())
