-- ?4 is the TTL in ms; 0 leaves the lease free.
UPDATE fencepost_leases
SET owner_token = ?3, fence_token = fence_token + 1, holder = ?5, ttl_ms = ?4,
    leased_until = CASE WHEN ?4 > 0 THEN CAST(round(unixepoch('subsec') * 1000) AS INTEGER) + ?4 END,
    acquired_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER),
    renewed_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER),
    wanted = 0, preempted_by = ?6, preempt_reason = ?7
WHERE lease_name = ?1 AND fence_token = ?2 AND fence_token < 9223372036854775807
RETURNING fence_token, leased_until
