-- Grants a free or expired lease, with the next fence. Nobody waits and nobody is waited for: a row that is locked, by a
-- fenced write (a shared lock on the index record that a takeover has to change) or by another acquisition, is skipped.
-- Who got it is read back by owner token: an insert id does not survive a trigger, and a count of rows means what the client's
-- flags say.
/*M! SET STATEMENT time_zone='+00:00', lock_wait_timeout=1, sql_safe_updates=0 FOR */
UPDATE /*+ SET_VAR(time_zone='+00:00') SET_VAR(lock_wait_timeout=1) SET_VAR(sql_safe_updates=0) */
    (SELECT lease_name, leased_until IS NOT NULL AS expired, SYSDATE(6) AS clock
     FROM fencepost_leases FORCE INDEX (fencepost__leases_fence)
     WHERE lease_name = :name AND (leased_until IS NULL OR leased_until <= SYSDATE(6)) AND fence_token < 9223372036854775807
     LIMIT 1
     FOR UPDATE SKIP LOCKED) open_lease
    STRAIGHT_JOIN fencepost_leases l FORCE INDEX (PRIMARY) ON l.lease_name = open_lease.lease_name
SET l.wanted = 0,
    l.taken_over = open_lease.expired,
    l.owner_token = :owner,
    l.fence_token = l.fence_token + 1,
    l.leased_until = open_lease.clock + INTERVAL 1000 * :ttl_ms MICROSECOND,
    l.ttl_ms = :ttl_ms,
    l.holder = CONVERT(:holder USING utf8mb4),
    l.acquired_at = open_lease.clock,
    l.renewed_at = open_lease.clock,
    l.preempted_by = NULL,
    l.preempt_reason = NULL
