-- How long this session waits for a row lock, in seconds.
SELECT @@session.innodb_lock_wait_timeout
