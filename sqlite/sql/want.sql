UPDATE fencepost_leases SET wanted = 1
WHERE lease_name = ?1 AND wanted = 0 AND leased_until > CAST(round(unixepoch('subsec') * 1000) AS INTEGER)
