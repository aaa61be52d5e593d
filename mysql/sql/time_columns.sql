-- The columns that hold times, and whether they keep microseconds in UTC.
SELECT CONCAT(TABLE_NAME, '.', COLUMN_NAME), DATA_TYPE = 'datetime' AND DATETIME_PRECISION = 6
FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = DATABASE() AND CAST(TABLE_NAME AS BINARY) IN (:leases, :events)
  AND COLUMN_NAME IN ('leased_until', 'acquired_at', 'renewed_at', 'at')
