WITH gone AS (
    DELETE FROM fencepost_dead WHERE id = $1::bigint
    RETURNING id, run_id, lease_name, fence_token, holder
), noted AS (
    INSERT INTO fencepost_events (lease_name, kind, fence_token, holder, actor, reason, at)
    SELECT lease_name, 'dropped', fence_token, holder, $2::text, format('dead letter %s of run %s', id, run_id), clock_timestamp() FROM gone
)
SELECT id FROM gone
