-- ?1 is a JSON array of [name, owner, fence as text]: a JSON number could lose digits of a fence on the way. The list is
-- built once, as an index; joined as a table it would be read again for every lease.
UPDATE fencepost_leases
SET leased_until = CAST(round(unixepoch('subsec') * 1000) AS INTEGER) + ttl_ms,
    renewed_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER)
WHERE (lease_name, owner_token, fence_token) IN
        (SELECT value ->> 0, value ->> 1, CAST(value ->> 2 AS INTEGER) FROM json_each(?1))
    AND leased_until > CAST(round(unixepoch('subsec') * 1000) AS INTEGER)
RETURNING lease_name, owner_token, fence_token, leased_until
