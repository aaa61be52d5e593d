-- The run, the mark on the letter and the event are one statement: none is there without the others. No row comes back when the letter is
-- not there, not of this lease or adopted, or when the id of the run is taken.
WITH letter AS MATERIALIZED (
    SELECT id, run_id, slot, status, result, error FROM fencepost_dead
    WHERE id = $5::bigint AND lease_name = $2::text AND adopted_at IS NULL
    FOR UPDATE
), made AS (
    INSERT INTO fencepost_runs (run_id, lease_name, owner_token, fence_token, holder, attempt, slot, status, result, error,
        started_at, updated_at, finished_at, adopted_from, actor)
    SELECT $1::text, $2::text, $3::text, $4::bigint, $6::text,
        CASE WHEN letter.slot IS NOT NULL THEN 1 + coalesce((SELECT max(one.attempt)
            FROM fencepost_runs AS one WHERE one.lease_name = $2::text AND one.slot = letter.slot), 0)
        ELSE 1 + coalesce((SELECT CASE WHEN last.status IN ('abandoned', 'stalled', 'partial') THEN last.attempt END
            FROM fencepost_runs AS last WHERE last.lease_name = $2::text AND last.slot IS NULL ORDER BY last.seq DESC LIMIT 1), 0) END,
        letter.slot, letter.status, letter.result, letter.error, letter.now, letter.now, letter.now, letter.id, $7::text
    FROM (SELECT id, slot, status, result, error, clock_timestamp() AS now FROM letter) AS letter
    ON CONFLICT DO NOTHING
    RETURNING seq, run_id, lease_name, owner_token, fence_token, holder, attempt, slot, missed, status, progress, result, error,
        started_at, updated_at, finished_at, replaced_by, adopted_from, actor
), marked AS (
    UPDATE fencepost_dead AS d SET adopted_by = made.actor, adopted_as = made.run_id, adopted_at = made.started_at
    FROM made WHERE d.id = made.adopted_from
), noted AS (
    INSERT INTO fencepost_events (lease_name, kind, fence_token, holder, actor, reason, at)
    SELECT made.lease_name, 'adopted', made.fence_token, made.holder, made.actor,
        format('dead letter %s of run %s, as run %s', letter.id, letter.run_id, made.run_id), made.started_at
    FROM made JOIN letter ON letter.id = made.adopted_from
)
SELECT made.seq, made.run_id, made.lease_name, made.owner_token, made.fence_token, made.holder, made.attempt,
    (extract(epoch FROM made.slot) * 1000)::bigint AS slot_ms, made.missed, made.status, made.progress AS progress, made.result AS result, made.error,
    (extract(epoch FROM made.started_at) * 1000000)::bigint AS started_us, (extract(epoch FROM made.updated_at) * 1000000)::bigint AS updated_us,
    (extract(epoch FROM made.finished_at) * 1000000)::bigint AS finished_us,
    coalesce(made.replaced_by, 0) AS replaced_by, coalesce(made.adopted_from, 0) AS adopted_from, made.actor, false AS lost
FROM made
