-- Whether leases can work here, from the catalog alone: it answers without rights on the tables, and without the tables.
SELECT pg_is_in_recovery() AS standby,
    current_setting('transaction_read_only') = 'on' AS read_only,
    current_setting('server_version_num')::int AS version,
    current_setting('server_encoding') AS encoding,
    current_setting('client_encoding') AS client_encoding,
    leases.oid IS NOT NULL AND events.oid IS NOT NULL AND EXISTS (SELECT FROM pg_proc WHERE pronamespace = space.oid AND proname = $4::text) AS installed,
    runs.oid IS NOT NULL AND dead.oid IS NOT NULL AS books,
    coalesce((SELECT string_agg(format('GRANT %s ON %s TO %I', privilege, relation, current_user), '; ')
        FROM (VALUES
            ('USAGE', format('SCHEMA %I', $1::text), has_schema_privilege(space.oid, 'USAGE')),
            ('SELECT', format('%I.%I', $1::text, $2::text), has_any_column_privilege(leases.oid, 'SELECT')),
            ('INSERT', format('%I.%I', $1::text, $2::text), has_any_column_privilege(leases.oid, 'INSERT')),
            ('UPDATE', format('%I.%I', $1::text, $2::text), has_any_column_privilege(leases.oid, 'UPDATE')),
            ('SELECT', format('%I.%I', $1::text, $3::text), has_any_column_privilege(events.oid, 'SELECT')),
            ('INSERT', format('%I.%I', $1::text, $3::text), has_any_column_privilege(events.oid, 'INSERT')),
            ('SELECT', format('%I.%I', $1::text, $6::text), has_any_column_privilege(runs.oid, 'SELECT')),
            ('INSERT', format('%I.%I', $1::text, $6::text), has_any_column_privilege(runs.oid, 'INSERT')),
            ('UPDATE', format('%I.%I', $1::text, $6::text), has_any_column_privilege(runs.oid, 'UPDATE')),
            ('SELECT', format('%I.%I', $1::text, $7::text), has_any_column_privilege(dead.oid, 'SELECT')),
            ('INSERT', format('%I.%I', $1::text, $7::text), has_any_column_privilege(dead.oid, 'INSERT')),
            ('UPDATE', format('%I.%I', $1::text, $7::text), has_any_column_privilege(dead.oid, 'UPDATE'))
        ) AS needed (privilege, relation, granted)
        WHERE NOT granted), '') AS missing,
    EXISTS (SELECT FROM pg_index AS i
        WHERE i.indrelid = leases.oid AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
            AND (SELECT attnum FROM pg_attribute WHERE attrelid = leases.oid AND attname = 'fence_token') = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])) AS fence_key,
    (SELECT count(*) FROM pg_trigger WHERE tgrelid = leases.oid AND NOT tgisinternal AND tgenabled IN ('O', 'A'))::int AS triggers,
    coalesce(has_schema_privilege(space.oid, 'USAGE') AND has_table_privilege(versions.oid, 'SELECT'), false) AS versioned
FROM (SELECT) AS one
LEFT JOIN pg_namespace AS space ON space.nspname = $1::text
LEFT JOIN pg_class AS leases ON leases.relnamespace = space.oid AND leases.relname = $2::text
LEFT JOIN pg_class AS events ON events.relnamespace = space.oid AND events.relname = $3::text
LEFT JOIN pg_class AS runs ON runs.relnamespace = space.oid AND runs.relname = $6::text
LEFT JOIN pg_class AS dead ON dead.relnamespace = space.oid AND dead.relname = $7::text
LEFT JOIN pg_class AS versions ON versions.relnamespace = space.oid AND versions.relname = $5::text
