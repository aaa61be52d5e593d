-- Takes a lease away from its holder. It waits for fenced writes in progress, in the queue of the index record that they
-- share, before it locks the row itself: the holder's renewals go on meanwhile. The clock is read after that wait.
/*M! SET STATEMENT time_zone='+00:00', lock_wait_timeout=1, sql_safe_updates=0 FOR */
UPDATE /*+ SET_VAR(time_zone='+00:00') SET_VAR(lock_wait_timeout=1) SET_VAR(sql_safe_updates=0) */
    (SELECT lease_name, SYSDATE(6) AS clock
     FROM fencepost_leases FORCE INDEX (fencepost__leases_fence)
     WHERE lease_name = :name AND fence_token = :fence AND fence_token < 9223372036854775807
     LIMIT 1
     FOR UPDATE) taken
    STRAIGHT_JOIN fencepost_leases l FORCE INDEX (PRIMARY) ON l.lease_name = taken.lease_name
SET l.wanted = 0,
    l.taken_over = 0,
    l.owner_token = :owner,
    l.fence_token = l.fence_token + 1,
    l.leased_until = IF(:ttl_ms = 0, NULL, taken.clock + INTERVAL 1000 * :ttl_ms MICROSECOND),
    l.ttl_ms = :ttl_ms,
    l.holder = CONVERT(:holder USING utf8mb4),
    l.acquired_at = taken.clock,
    l.renewed_at = taken.clock,
    l.preempted_by = CONVERT(:actor USING utf8mb4),
    l.preempt_reason = CONVERT(:reason USING utf8mb4)
