UPDATE fencepost_runs SET progress = $5::text, updated_at = clock_timestamp()
WHERE run_id = $1::text AND lease_name = $2::text AND owner_token = $3::text AND fence_token = $4::bigint AND status = 'running'
RETURNING true AS reported
