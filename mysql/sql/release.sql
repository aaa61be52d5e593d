-- Frees a live lease and keeps its row and fence, if somebody waits for it or nobody does, as asked.
/*M! SET STATEMENT time_zone='+00:00', lock_wait_timeout=1, sql_safe_updates=0 FOR */
UPDATE /*+ SET_VAR(time_zone='+00:00') SET_VAR(lock_wait_timeout=1) SET_VAR(sql_safe_updates=0) */
    (SELECT lease_name
     FROM fencepost_leases FORCE INDEX (PRIMARY)
     WHERE lease_name = :name AND owner_token = :owner AND fence_token = :fence AND wanted = :wanted AND leased_until > SYSDATE(6)
     LIMIT 1
     FOR UPDATE SKIP LOCKED) live
    STRAIGHT_JOIN fencepost_leases l FORCE INDEX (PRIMARY) ON l.lease_name = live.lease_name
SET l.leased_until = NULL,
    l.wanted = 0
