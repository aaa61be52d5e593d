UPDATE fencepost_leases
SET owner_token = ?2, fence_token = fence_token + 1, holder = ?3, ttl_ms = ?4,
    leased_until = CAST(round(unixepoch('subsec') * 1000) AS INTEGER) + ?4,
    acquired_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER),
    renewed_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER),
    wanted = 0, preempted_by = NULL, preempt_reason = NULL
WHERE lease_name = ?1 AND fence_token < 9223372036854775807
    AND (leased_until IS NULL OR leased_until <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER))
RETURNING fence_token, leased_until
