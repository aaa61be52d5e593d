-- The result does not travel back: who asks has it.
UPDATE fencepost_runs AS r SET status = $5::text, result = $6::text, error = $7::text, updated_at = clock.now, finished_at = clock.now
FROM (SELECT clock_timestamp() AS now) AS clock
WHERE r.run_id = $1::text AND r.lease_name = $2::text AND r.owner_token = $3::text AND r.fence_token = $4::bigint AND r.status = 'running'
RETURNING r.seq, r.run_id, r.lease_name, r.owner_token, r.fence_token, r.holder, r.attempt,
    (extract(epoch FROM r.slot) * 1000)::bigint AS slot_ms, r.missed, r.status, r.progress AS progress, NULL::text AS result, r.error,
    (extract(epoch FROM r.started_at) * 1000000)::bigint AS started_us, (extract(epoch FROM r.updated_at) * 1000000)::bigint AS updated_us,
    (extract(epoch FROM r.finished_at) * 1000000)::bigint AS finished_us,
    coalesce(r.replaced_by, 0) AS replaced_by, coalesce(r.adopted_from, 0) AS adopted_from, r.actor, false AS lost
