-- $2 is an age in ms and $3 how many to keep; 0 is no limit.
WITH gone AS (
    DELETE FROM fencepost_events WHERE id IN (
        SELECT e.id FROM fencepost_events AS e
        WHERE e.lease_name = $1::text
            AND ($2::bigint > 0 AND e.at < (SELECT clock_timestamp()) - $2::bigint * interval '1 millisecond'
                OR $3::bigint > 0 AND e.id < (SELECT kept.id FROM fencepost_events AS kept WHERE kept.lease_name = $1::text
                    ORDER BY kept.id DESC OFFSET greatest($3::bigint - 1, 0) LIMIT 1))
        ORDER BY e.id LIMIT $4::bigint)
    RETURNING id
)
SELECT count(*) FROM gone
