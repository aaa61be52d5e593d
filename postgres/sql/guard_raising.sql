SELECT fencepost_guard($1, $2, $3)
