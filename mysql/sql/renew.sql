-- Extends every live lease of a list by the TTL that it was acquired with. JSON_TABLE, not a list of row values: MariaDB
-- does not search an index for those, and MySQL gives up on the index when a list is long. Locked rows are skipped, so
-- that one lease in trouble cannot keep the others from being renewed. All rows get one clock, read before
-- the first row.
/*M! SET STATEMENT time_zone='+00:00', lock_wait_timeout=1, sql_safe_updates=0 FOR */
UPDATE /*+ SET_VAR(time_zone='+00:00') SET_VAR(lock_wait_timeout=1) SET_VAR(sql_safe_updates=0) */
    (SELECT r.lease_name, started.clock
     FROM (SELECT SYSDATE(6) AS clock) started
     STRAIGHT_JOIN JSON_TABLE(:tokens, '$[*]' COLUMNS (
         name_hex VARCHAR(400) PATH '$[0]', owner_hex VARCHAR(510) PATH '$[1]', fence BIGINT PATH '$[2]')) asked
     STRAIGHT_JOIN fencepost_leases r FORCE INDEX (PRIMARY) ON r.lease_name = UNHEX(asked.name_hex)
     WHERE r.owner_token = UNHEX(asked.owner_hex) AND r.fence_token = asked.fence AND r.leased_until > SYSDATE(6)
     LIMIT :count
     FOR UPDATE /*!80000 OF r */ SKIP LOCKED) live
    STRAIGHT_JOIN fencepost_leases l FORCE INDEX (PRIMARY) ON l.lease_name = live.lease_name
SET l.leased_until = GREATEST(l.leased_until, live.clock + INTERVAL 1000 * l.ttl_ms MICROSECOND),
    l.renewed_at = live.clock
