-- Extends one live lease by the TTL that it was acquired with: the common case, without the list.
/*M! SET STATEMENT time_zone='+00:00', lock_wait_timeout=1, sql_safe_updates=0 FOR */
UPDATE /*+ SET_VAR(time_zone='+00:00') SET_VAR(lock_wait_timeout=1) SET_VAR(sql_safe_updates=0) */
    (SELECT lease_name, SYSDATE(6) AS clock
     FROM fencepost_leases FORCE INDEX (PRIMARY)
     WHERE lease_name = :name AND owner_token = :owner AND fence_token = :fence AND leased_until > SYSDATE(6)
     LIMIT 1
     FOR UPDATE SKIP LOCKED) live
    STRAIGHT_JOIN fencepost_leases l FORCE INDEX (PRIMARY) ON l.lease_name = live.lease_name
SET l.leased_until = GREATEST(l.leased_until, live.clock + INTERVAL 1000 * l.ttl_ms MICROSECOND),
    l.renewed_at = live.clock
