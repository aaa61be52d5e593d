-- ?2 is an age in ms and ?3 how many to keep; 0 is no limit.
DELETE FROM fencepost_events WHERE id IN (
    SELECT e.id FROM fencepost_events AS e
    WHERE e.lease_name = ?1
        AND (?2 > 0 AND e.at < CAST(round(unixepoch('subsec') * 1000) AS INTEGER) - ?2
            OR ?3 > 0 AND e.id < (SELECT kept.id FROM fencepost_events AS kept WHERE kept.lease_name = ?1
                ORDER BY kept.id DESC LIMIT 1 OFFSET max(?3 - 1, 0)))
    ORDER BY e.id LIMIT ?4)
