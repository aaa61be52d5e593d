-- The same completion is kept once. No row comes back when another kept it at the same moment: the next look sees it.
WITH kept AS (
    INSERT INTO fencepost_dead (run_id, lease_name, fence_token, current_fence, reason, holder, slot, status, result, error, digest, at)
    VALUES ($1::text, $2::text, $3::bigint, $4::bigint, $5::text, $6::text, timestamptz 'epoch' + $7::bigint * interval '1 millisecond',
        $8::text, $9::text, $10::text, $11::text, clock_timestamp())
    ON CONFLICT (run_id, digest) DO NOTHING
    RETURNING id
)
SELECT id FROM kept
UNION ALL
SELECT id FROM fencepost_dead WHERE run_id = $1::text AND digest = $11::text
