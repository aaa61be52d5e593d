SELECT fencepost_guard($1::text, $2::text, $3::bigint)
