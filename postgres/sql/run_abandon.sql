-- What the trigger of the leases does, for a database whose triggers were switched off.
UPDATE fencepost_runs SET status = 'abandoned', replaced_by = $2::bigint, updated_at = clock.now, finished_at = clock.now
FROM (SELECT clock_timestamp() AS now) AS clock
WHERE lease_name = $1::text AND status = 'running' AND fence_token < $2::bigint
