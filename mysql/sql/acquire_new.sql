-- Grants a lease whose name was never acquired. A concurrent one wins by the primary key, and the loser is told 1062.
/*M! SET STATEMENT time_zone='+00:00', lock_wait_timeout=1, sql_safe_updates=0 FOR */
INSERT /*+ SET_VAR(time_zone='+00:00') SET_VAR(lock_wait_timeout=1) SET_VAR(sql_safe_updates=0) */
INTO fencepost_leases (lease_name, owner_token, fence_token, leased_until, ttl_ms, holder, acquired_at, renewed_at)
SELECT :name, :owner, 1, started.clock + INTERVAL 1000 * :ttl_ms MICROSECOND, :ttl_ms, CONVERT(:holder USING utf8mb4), started.clock, started.clock
FROM (SELECT SYSDATE(6) AS clock) started
