-- Reads the leases of a list.
/*M! SET STATEMENT time_zone='+00:00', lock_wait_timeout=1, sql_safe_updates=0 FOR */
SELECT /*+ SET_VAR(time_zone='+00:00') SET_VAR(lock_wait_timeout=1) SET_VAR(sql_safe_updates=0) */
    ROW_COUNT() AS changed, l.lease_name, l.owner_token, l.fence_token, CAST(l.holder AS BINARY) AS holder, l.ttl_ms, l.wanted, l.taken_over,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', l.leased_until) AS leased_until_us,
    TIMESTAMPDIFF(MICROSECOND, SYSDATE(6), l.leased_until) AS remaining_us,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', l.acquired_at) AS acquired_us,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', l.renewed_at) AS renewed_us,
    @@global.read_only AS read_only
FROM JSON_TABLE(:tokens, '$[*]' COLUMNS (name_hex VARCHAR(400) PATH '$[0]')) asked
STRAIGHT_JOIN fencepost_leases l FORCE INDEX (PRIMARY) ON l.lease_name = UNHEX(asked.name_hex)
