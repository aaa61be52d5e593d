-- A lease that is free, and whose next fence is higher than what it had elsewhere.
/*M! SET STATEMENT time_zone='+00:00', lock_wait_timeout=1, sql_safe_updates=0 FOR */
INSERT /*+ SET_VAR(time_zone='+00:00') SET_VAR(lock_wait_timeout=1) SET_VAR(sql_safe_updates=0) */
INTO fencepost_leases (lease_name, owner_token, fence_token)
VALUES (:name, :owner, :fence)
