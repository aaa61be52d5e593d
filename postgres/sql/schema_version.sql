SELECT coalesce(max(version_id), 0)::bigint FROM fencepost_schema_version WHERE is_applied
