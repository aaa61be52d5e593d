-- Lists leases in byte order of their names.
/*M! SET STATEMENT time_zone='+00:00', lock_wait_timeout=1, sql_safe_updates=0 FOR */
SELECT /*+ SET_VAR(time_zone='+00:00') SET_VAR(lock_wait_timeout=1) SET_VAR(sql_safe_updates=0) */
    ROW_COUNT() AS changed, l.lease_name, l.owner_token, l.fence_token, CAST(l.holder AS BINARY) AS holder, l.ttl_ms, l.wanted, l.taken_over,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', l.leased_until) AS leased_until_us,
    TIMESTAMPDIFF(MICROSECOND, SYSDATE(6), l.leased_until) AS remaining_us,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', l.acquired_at) AS acquired_us,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', l.renewed_at) AS renewed_us,
    @@global.read_only AS read_only
FROM fencepost_leases l
WHERE l.lease_name > :after
ORDER BY l.lease_name
LIMIT :limit
