-- $2 is an age in ms and $3 how many to keep; 0 is no limit. The open run, the newest run and the newest attempt of the newest slot stay: the
-- attempts and the schedule go on from them.
WITH gone AS (
    DELETE FROM fencepost_runs WHERE seq IN (
        SELECT r.seq FROM fencepost_runs AS r
        WHERE r.lease_name = $1::text AND r.status <> 'running'
            AND ($2::bigint > 0 AND r.finished_at < (SELECT clock_timestamp()) - $2::bigint * interval '1 millisecond'
                OR $3::bigint > 0 AND r.seq < (SELECT kept.seq FROM fencepost_runs AS kept WHERE kept.lease_name = $1::text
                    ORDER BY kept.seq DESC OFFSET greatest($3::bigint - 1, 0) LIMIT 1))
            AND r.seq <> (SELECT max(newest.seq) FROM fencepost_runs AS newest WHERE newest.lease_name = $1::text)
            AND r.seq IS DISTINCT FROM (SELECT slotted.seq FROM fencepost_runs AS slotted
                WHERE slotted.lease_name = $1::text AND slotted.slot IS NOT NULL ORDER BY slotted.slot DESC, slotted.attempt DESC LIMIT 1)
        ORDER BY r.seq LIMIT $4::bigint)
    RETURNING seq
)
SELECT count(*) FROM gone
