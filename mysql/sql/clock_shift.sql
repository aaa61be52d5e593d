-- How far SET timestamp has moved this session's clock, in whole seconds. Both clocks are read in the same zone.
/*M! SET STATEMENT time_zone='+00:00' FOR */
SELECT /*+ SET_VAR(time_zone='+00:00') */ TRUNCATE(TIMESTAMPDIFF(MICROSECOND, SYSDATE(6), NOW(6)) / 1000000, 0)
