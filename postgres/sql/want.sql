UPDATE fencepost_leases SET wanted = true
WHERE lease_name = $1 AND NOT wanted AND leased_until > clock_timestamp()
