-- The triggers on a table of this database that the user may see.
SELECT TRIGGER_NAME
FROM information_schema.TRIGGERS
WHERE TRIGGER_SCHEMA = DATABASE() AND CAST(EVENT_OBJECT_TABLE AS BINARY) = :table
