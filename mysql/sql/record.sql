-- Adds an event that only a client can know of.
/*M! SET STATEMENT time_zone='+00:00', lock_wait_timeout=1, sql_safe_updates=0 FOR */
INSERT /*+ SET_VAR(time_zone='+00:00') SET_VAR(lock_wait_timeout=1) SET_VAR(sql_safe_updates=0) */
INTO fencepost_events (lease_name, kind, fence_token, holder, actor, reason, at)
VALUES (:name, CONVERT(:kind USING utf8mb4), :fence, CONVERT(:holder USING utf8mb4), CONVERT(:actor USING utf8mb4),
    CONVERT(:reason USING utf8mb4), SYSDATE(6))
