UPDATE fencepost_leases SET leased_until = NULL
WHERE lease_name = ?1 AND owner_token = ?2 AND fence_token = ?3
    AND leased_until > CAST(round(unixepoch('subsec') * 1000) AS INTEGER)
RETURNING wanted
