-- A write that changes nothing: it takes the file's only write lock, so that no takeover can commit before the caller's
-- transaction does, and it reads the newest version of the row. In a transaction whose snapshot has become too old SQLite
-- refuses it (SQLITE_BUSY_SNAPSHOT).
UPDATE fencepost_leases SET wanted = wanted
WHERE lease_name = ?1
RETURNING lease_name, owner_token, fence_token, holder, ttl_ms, leased_until, acquired_at, renewed_at, wanted,
    CAST(round(unixepoch('subsec') * 1000) AS INTEGER) AS now
