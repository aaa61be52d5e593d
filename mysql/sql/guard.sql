-- Locks the newest fence of a lease for the rest of the transaction, if it is the token's. Only the record of the unique index is
-- locked, because the index holds all that is read of it: a takeover or preemption has to change that record and so waits for
-- this transaction, while a renewal changes only the row and does not. The row is read after the lock, without one.
/*M! SET STATEMENT time_zone='+00:00', lock_wait_timeout=1, sql_safe_updates=0 FOR */
SELECT /*+ SET_VAR(time_zone='+00:00') SET_VAR(lock_wait_timeout=1) SET_VAR(sql_safe_updates=0) */
    ROW_COUNT() AS changed, l.lease_name, l.owner_token, l.fence_token, CAST(l.holder AS BINARY) AS holder, l.ttl_ms, l.wanted, l.taken_over,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', l.leased_until) AS leased_until_us,
    TIMESTAMPDIFF(MICROSECOND, SYSDATE(6), l.leased_until) AS remaining_us,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', l.acquired_at) AS acquired_us,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', l.renewed_at) AS renewed_us,
    @@global.read_only AS read_only
FROM (SELECT lease_name
      FROM fencepost_leases FORCE INDEX (fencepost__leases_fence)
      WHERE lease_name = :name AND fence_token = :fence AND owner_token = :owner
      LIMIT 1
      LOCK IN SHARE MODE) newest
STRAIGHT_JOIN fencepost_leases l FORCE INDEX (PRIMARY) ON l.lease_name = newest.lease_name
