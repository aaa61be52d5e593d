-- ?2 is an age in ms and ?3 how many to keep; 0 is no limit. The open run, the newest run and the newest attempt of the newest slot stay: the
-- attempts and the schedule go on from them.
DELETE FROM fencepost_runs WHERE seq IN (
    SELECT r.seq FROM fencepost_runs AS r
    WHERE r.lease_name = ?1 AND r.status <> 'running'
        AND (?2 > 0 AND r.finished_at < CAST(round(unixepoch('subsec') * 1000) AS INTEGER) - ?2
            OR ?3 > 0 AND r.seq < (SELECT kept.seq FROM fencepost_runs AS kept WHERE kept.lease_name = ?1
                ORDER BY kept.seq DESC LIMIT 1 OFFSET max(?3 - 1, 0)))
        AND r.seq <> (SELECT max(newest.seq) FROM fencepost_runs AS newest WHERE newest.lease_name = ?1)
        AND r.seq IS NOT (SELECT slotted.seq FROM fencepost_runs AS slotted
            WHERE slotted.lease_name = ?1 AND slotted.slot IS NOT NULL ORDER BY slotted.slot DESC, slotted.attempt DESC LIMIT 1)
    ORDER BY r.seq LIMIT ?4)
