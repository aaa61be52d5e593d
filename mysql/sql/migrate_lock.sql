-- 1 when the session has the lock, 0 after waiting in vain, NULL on an error.
SELECT GET_LOCK(CONVERT(:lock USING utf8mb4), :seconds)
