-- leased_until may be milliseconds (beyond the year 5138 as seconds), seconds, or text.
SELECT CAST(lease_name AS TEXT) FROM "adopted_table"
WHERE CASE
    WHEN leased_until IS NULL THEN 0
    WHEN typeof(leased_until) IN ('integer', 'real') AND leased_until >= 100000000000 THEN leased_until > CAST(round(unixepoch('subsec') * 1000) AS INTEGER)
    WHEN typeof(leased_until) IN ('integer', 'real') THEN leased_until * 1000 > CAST(round(unixepoch('subsec') * 1000) AS INTEGER)
    ELSE coalesce(unixepoch(leased_until, 'subsec') * 1000 > CAST(round(unixepoch('subsec') * 1000) AS INTEGER), 1)
END
ORDER BY 1
