-- Which of the names in the JSON array ?1 can be taken now.
SELECT lease_name FROM fencepost_leases
WHERE lease_name IN (SELECT value FROM json_each(?1))
    AND (leased_until IS NULL OR leased_until <= CAST(round(unixepoch('subsec') * 1000) AS INTEGER))
