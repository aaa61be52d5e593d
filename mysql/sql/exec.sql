-- A fenced write in one packet. The guard raises 1690 when the token is stale, and the server runs nothing that follows a
-- statement that fails.
START TRANSACTION;
/*M! SET STATEMENT time_zone='+00:00', lock_wait_timeout=1, sql_safe_updates=0 FOR */
SELECT /*+ SET_VAR(time_zone='+00:00') SET_VAR(lock_wait_timeout=1) SET_VAR(sql_safe_updates=0) */
    9223372036854775807 + (
        SELECT COUNT(*) = 0
        FROM (SELECT lease_name
              FROM fencepost_leases FORCE INDEX (fencepost__leases_fence)
              WHERE lease_name = :name AND fence_token = :fence AND owner_token = :owner
              LIMIT 1
              LOCK IN SHARE MODE) newest
        STRAIGHT_JOIN fencepost_leases l FORCE INDEX (PRIMARY) ON l.lease_name = newest.lease_name
        WHERE l.fence_token = :fence AND l.leased_until > SYSDATE(6)) AS guard;
:statement
;
COMMIT AND NO CHAIN NO RELEASE
