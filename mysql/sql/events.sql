-- Events of all leases.
/*M! SET STATEMENT time_zone='+00:00', lock_wait_timeout=1, sql_safe_updates=0 FOR */
SELECT /*+ SET_VAR(time_zone='+00:00') SET_VAR(lock_wait_timeout=1) SET_VAR(sql_safe_updates=0) */
    id, lease_name, CAST(kind AS BINARY) AS kind, fence_token, CAST(holder AS BINARY) AS holder, CAST(actor AS BINARY) AS actor,
    CAST(reason AS BINARY) AS reason, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', at) AS at_us
FROM fencepost_events
WHERE id > :after
ORDER BY id
LIMIT :limit
