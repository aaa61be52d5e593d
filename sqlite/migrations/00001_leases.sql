-- +goose Up
-- Times are whole milliseconds since 1970, UTC: text of mixed formats does not order as the times do. A smaller number than
-- those that the CHECKs allow is in seconds, or from a machine whose clock was never set.
-- +goose StatementBegin
CREATE TABLE fencepost_leases (
    lease_name     TEXT    NOT NULL PRIMARY KEY COLLATE BINARY CHECK (length(CAST(lease_name AS BLOB)) BETWEEN 1 AND 200),
    owner_token    TEXT    NOT NULL COLLATE BINARY,
    fence_token    INTEGER NOT NULL CHECK (fence_token >= 1),
    leased_until   INTEGER CONSTRAINT leased_until_is_in_milliseconds CHECK (leased_until >= 100000000000), -- NULL when free
    holder         TEXT    NOT NULL DEFAULT '',
    ttl_ms         INTEGER NOT NULL DEFAULT 0 CHECK (ttl_ms >= 0),
    acquired_at    INTEGER CONSTRAINT acquired_at_is_in_milliseconds CHECK (acquired_at >= 100000000000),
    renewed_at     INTEGER CONSTRAINT renewed_at_is_in_milliseconds CHECK (renewed_at >= 100000000000),
    wanted         INTEGER NOT NULL DEFAULT 0 CHECK (wanted IN (0, 1)),
    preempted_by   TEXT,
    preempt_reason TEXT
) STRICT, WITHOUT ROWID;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE fencepost_events (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    lease_name  TEXT    NOT NULL COLLATE BINARY,
    kind        TEXT    NOT NULL,
    fence_token INTEGER NOT NULL,
    holder      TEXT    NOT NULL DEFAULT '',
    actor       TEXT    NOT NULL DEFAULT '',
    reason      TEXT    NOT NULL DEFAULT '',
    at          INTEGER NOT NULL CONSTRAINT at_is_in_milliseconds CHECK (at >= 100000000000)
) STRICT;
-- +goose StatementEnd

CREATE INDEX fencepost__events_lease ON fencepost_events (lease_name, id);

-- +goose StatementBegin
CREATE TRIGGER fencepost__leases_fence BEFORE UPDATE OF lease_name, owner_token, fence_token ON fencepost_leases
WHEN NEW.lease_name <> OLD.lease_name OR NEW.fence_token < OLD.fence_token
    OR (NEW.owner_token <> OLD.owner_token AND NEW.fence_token = OLD.fence_token)
BEGIN
    SELECT RAISE(ABORT, 'fencepost: a lease keeps its name, its fence never falls, and a new owner needs a higher fence');
END;
-- +goose StatementEnd

-- INSERT OR REPLACE removes the old row without asking the trigger on DELETE.
-- +goose StatementBegin
CREATE TRIGGER fencepost__leases_replace BEFORE INSERT ON fencepost_leases
WHEN EXISTS (SELECT 1 FROM fencepost_leases WHERE lease_name = NEW.lease_name)
BEGIN
    SELECT RAISE(ABORT, 'fencepost: a lease of that name exists; its row is never replaced');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER fencepost__leases_delete BEFORE DELETE ON fencepost_leases
BEGIN
    SELECT RAISE(ABORT, 'fencepost: leases are never deleted, because their fences must never start again');
END;
-- +goose StatementEnd

-- A row that is created free was adopted, not acquired.
-- +goose StatementBegin
CREATE TRIGGER fencepost__leases_created AFTER INSERT ON fencepost_leases WHEN NEW.leased_until IS NOT NULL
BEGIN
    INSERT INTO fencepost_events (lease_name, kind, fence_token, holder, at)
    VALUES (NEW.lease_name, 'acquired', NEW.fence_token, NEW.holder, CAST(round(unixepoch('subsec') * 1000) AS INTEGER));
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER fencepost__leases_granted AFTER UPDATE OF fence_token ON fencepost_leases
WHEN NEW.fence_token > OLD.fence_token AND (NEW.leased_until IS NOT NULL OR NEW.preempted_by IS NOT NULL)
BEGIN
    INSERT INTO fencepost_events (lease_name, kind, fence_token, holder, actor, reason, at)
    VALUES (NEW.lease_name,
        CASE WHEN NEW.preempted_by IS NOT NULL THEN 'preempted' WHEN OLD.leased_until IS NULL THEN 'acquired' ELSE 'taken_over' END,
        NEW.fence_token, NEW.holder, coalesce(NEW.preempted_by, ''), coalesce(NEW.preempt_reason, ''),
        CAST(round(unixepoch('subsec') * 1000) AS INTEGER));
END;
-- +goose StatementEnd

-- A renewal sets leased_until too; this line is all that it costs.
-- +goose StatementBegin
CREATE TRIGGER fencepost__leases_released AFTER UPDATE OF leased_until ON fencepost_leases
WHEN NEW.leased_until IS NULL AND OLD.leased_until IS NOT NULL AND NEW.fence_token = OLD.fence_token
BEGIN
    INSERT INTO fencepost_events (lease_name, kind, fence_token, holder, at)
    VALUES (NEW.lease_name, 'released', NEW.fence_token, NEW.holder, CAST(round(unixepoch('subsec') * 1000) AS INTEGER));
END;
-- +goose StatementEnd
