SELECT lease_name::text FROM "adopted_table" WHERE leased_until::timestamptz > clock_timestamp() ORDER BY 1
