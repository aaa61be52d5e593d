-- The newest migration that was applied.
SELECT COALESCE(MAX(version_id), 0) FROM fencepost_schema_version WHERE is_applied = 1
