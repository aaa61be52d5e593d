-- The wait for a lock is bounded by $2: see release.
UPDATE fencepost_leases SET wanted = true
WHERE lease_name = $1::text AND NOT wanted AND leased_until > clock_timestamp()
    AND (SELECT set_config('lock_timeout', $2::text, true)) IS NOT NULL
RETURNING true
