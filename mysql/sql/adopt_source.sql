-- The rows of another table of leases, read locked, so that its writers wait. Text becomes UTF-8, bytes stay bytes.
/*M! SET STATEMENT time_zone='+00:00', lock_wait_timeout=1, sql_safe_updates=0 FOR */
SELECT /*+ SET_VAR(time_zone='+00:00') SET_VAR(lock_wait_timeout=1) SET_VAR(sql_safe_updates=0) */
    CAST(CONVERT(lease_name USING utf8mb4) AS BINARY) AS lease_name, CAST(CONVERT(owner_token USING utf8mb4) AS BINARY) AS owner_token,
    fence_token, CAST(leased_until AS CHAR) AS until,
    COALESCE(leased_until > SYSDATE(6), 0) AS live, COALESCE(leased_until > SYSDATE(6) - INTERVAL 14 HOUR, 0) AS maybe_live
FROM :source
FOR UPDATE
