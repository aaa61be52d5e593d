-- $1 is the seq to begin before, $3 the statuses or null, $4 whether payloads are wanted.
SELECT pg_is_in_recovery() AS standby, r.seq, r.run_id, r.lease_name, r.owner_token, r.fence_token, r.holder, r.attempt,
    (extract(epoch FROM r.slot) * 1000)::bigint AS slot_ms, r.missed, r.status, CASE WHEN $4::boolean THEN r.progress END AS progress, CASE WHEN $4::boolean THEN r.result END AS result, r.error,
    (extract(epoch FROM r.started_at) * 1000000)::bigint AS started_us, (extract(epoch FROM r.updated_at) * 1000000)::bigint AS updated_us,
    (extract(epoch FROM r.finished_at) * 1000000)::bigint AS finished_us,
    coalesce(r.replaced_by, 0) AS replaced_by, coalesce(r.adopted_from, 0) AS adopted_from, r.actor,
    r.status = 'running' AND (l.leased_until > clock_timestamp()) IS NOT TRUE AS lost
FROM fencepost_runs AS r
LEFT JOIN fencepost_leases AS l ON r.status = 'running' AND l.lease_name = r.lease_name AND l.owner_token = r.owner_token AND l.fence_token = r.fence_token
WHERE r.seq < $1::bigint AND ($3::text[] IS NULL OR r.status = ANY ($3::text[])) AND r.lease_name = $5::text
ORDER BY r.seq DESC LIMIT $2::bigint
