-- No row comes back when the id, the slot or the lease's one open run is in the way. $6 is the slot in ms, or null; $7 how many attempts it may have.
INSERT INTO fencepost_runs (run_id, lease_name, owner_token, fence_token, holder, attempt, slot, missed, status, error, started_at, updated_at, finished_at)
SELECT $1::text, $2::text, $3::text, $4::bigint, $5::text,
    CASE WHEN asked.slot IS NOT NULL THEN 1 + coalesce(tried.attempt, 0)
    ELSE 1 + coalesce((SELECT CASE WHEN last.status IN ('abandoned', 'stalled', 'partial') THEN last.attempt END
        FROM fencepost_runs AS last WHERE last.lease_name = $2::text AND last.slot IS NULL ORDER BY last.seq DESC LIMIT 1), 0) END,
    asked.slot, $8::bigint, CASE WHEN $9::boolean THEN 'skipped' ELSE 'running' END, $10::text,
    asked.now, asked.now, CASE WHEN $9::boolean THEN asked.now END
FROM (SELECT clock_timestamp() AS now, timestamptz 'epoch' + $6::bigint * interval '1 millisecond' AS slot) AS asked
CROSS JOIN LATERAL (
    SELECT count(*) AS attempts, max(one.attempt) AS attempt, bool_or(one.status NOT IN ('abandoned', 'stalled')) AS done
    FROM fencepost_runs AS one WHERE one.lease_name = $2::text AND one.slot = asked.slot
) AS tried
WHERE asked.slot IS NULL OR asked.slot <= asked.now AND tried.attempts < $7::bigint AND tried.done IS NOT TRUE
ON CONFLICT DO NOTHING
RETURNING seq, run_id, lease_name, owner_token, fence_token, holder, attempt,
    (extract(epoch FROM slot) * 1000)::bigint AS slot_ms, missed, status, NULL::text AS progress, NULL::text AS result, error,
    (extract(epoch FROM started_at) * 1000000)::bigint AS started_us, (extract(epoch FROM updated_at) * 1000000)::bigint AS updated_us,
    (extract(epoch FROM finished_at) * 1000000)::bigint AS finished_us,
    coalesce(replaced_by, 0) AS replaced_by, coalesce(adopted_from, 0) AS adopted_from, actor, false AS lost
