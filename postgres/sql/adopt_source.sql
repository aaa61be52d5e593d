-- A timestamp without a zone does not say when it is: it has certainly passed when it has in every zone.
SELECT coalesce(old.lease_name::text, '') AS lease_name, coalesce(old.owner_token::text, '') AS owner_token, coalesce(old.fence_token, 0)::bigint AS fence_token,
    coalesce(CASE WHEN pg_typeof(old.leased_until) = 'timestamptz'::regtype THEN old.leased_until::text::timestamptz > clock_timestamp()
        ELSE old.leased_until::text::timestamp > clock_timestamp() AT TIME ZONE 'UTC' END, false) AS live,
    coalesce(pg_typeof(old.leased_until) <> 'timestamptz'::regtype
        AND old.leased_until::text::timestamp > clock_timestamp() AT TIME ZONE 'UTC' - interval '14 hours', false) AS doubtful,
    coalesce(here.fence_token < old.fence_token AND here.leased_until > clock_timestamp(), false) AS taken
FROM "adopted_table" AS old LEFT JOIN fencepost_leases AS here ON here.lease_name = old.lease_name::text COLLATE "C"
ORDER BY 1
