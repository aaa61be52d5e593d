SELECT
    (SELECT count(*) FROM pg_trigger WHERE tgrelid = $1::text::regclass AND NOT tgisinternal AND tgenabled IN ('O', 'A'))::int,
    (SELECT count(*) FROM pg_attribute WHERE attrelid = $1::text::regclass AND attname IN ('leased_until', 'acquired_at', 'renewed_at')
        AND format_type(atttypid, atttypmod) IN ('timestamp(6) with time zone', 'timestamp with time zone'))::int,
    EXISTS (SELECT 1 FROM pg_index AS i WHERE i.indrelid = $1::text::regclass AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
        AND i.indimmediate AND (SELECT array_agg(a.attname::text ORDER BY a.attname) FROM pg_attribute AS a WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey))
            = ARRAY['fence_token', 'lease_name'])
