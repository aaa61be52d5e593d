-- The fence from elsewhere is the greater one.
/*M! SET STATEMENT time_zone='+00:00', lock_wait_timeout=1, sql_safe_updates=0 FOR */
UPDATE /*+ SET_VAR(time_zone='+00:00') SET_VAR(lock_wait_timeout=1) SET_VAR(sql_safe_updates=0) */ fencepost_leases
SET owner_token = :owner,
    fence_token = :fence,
    leased_until = NULL,
    preempted_by = NULL,
    preempt_reason = NULL
WHERE lease_name = :name AND fence_token < :fence
