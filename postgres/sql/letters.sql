-- $1 is the id to begin before, $3 whether those that were adopted are wanted too, $4 whether payloads are.
SELECT pg_is_in_recovery() AS standby, id, run_id, lease_name, fence_token, current_fence, reason, holder, (extract(epoch FROM slot) * 1000)::bigint AS slot_ms, status,
    CASE WHEN $4::boolean THEN result END AS result, error, (extract(epoch FROM at) * 1000000)::bigint AS at_us,
    coalesce(adopted_by, '') AS adopted_by, coalesce(adopted_as, '') AS adopted_as, (extract(epoch FROM adopted_at) * 1000000)::bigint AS adopted_us
FROM fencepost_dead
WHERE id < $1::bigint AND ($3::boolean OR adopted_at IS NULL)
ORDER BY id DESC LIMIT $2::bigint
