SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'fencepost_leases'
