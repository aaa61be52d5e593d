-- Marks a held lease as waited for.
/*M! SET STATEMENT time_zone='+00:00', lock_wait_timeout=1, sql_safe_updates=0 FOR */
UPDATE /*+ SET_VAR(time_zone='+00:00') SET_VAR(lock_wait_timeout=1) SET_VAR(sql_safe_updates=0) */
    (SELECT lease_name
     FROM fencepost_leases FORCE INDEX (PRIMARY)
     WHERE lease_name = :name AND wanted = 0 AND leased_until > SYSDATE(6)
     LIMIT 1
     FOR UPDATE SKIP LOCKED) held
    STRAIGHT_JOIN fencepost_leases l FORCE INDEX (PRIMARY) ON l.lease_name = held.lease_name
SET l.wanted = 1
