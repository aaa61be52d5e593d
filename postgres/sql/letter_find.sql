SELECT pg_is_in_recovery() AS standby, id, run_id, lease_name, fence_token, current_fence, reason, holder, (extract(epoch FROM slot) * 1000)::bigint AS slot_ms, status,
    result AS result, error, (extract(epoch FROM at) * 1000000)::bigint AS at_us,
    coalesce(adopted_by, '') AS adopted_by, coalesce(adopted_as, '') AS adopted_as, (extract(epoch FROM adopted_at) * 1000000)::bigint AS adopted_us
FROM fencepost_dead
WHERE id = $1::bigint
