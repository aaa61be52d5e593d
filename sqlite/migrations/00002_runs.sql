-- +goose Up
-- Every execution of a job, as its token wrote it. JSON is kept as text, so that it comes back byte for byte.
-- +goose StatementBegin
CREATE TABLE fencepost_runs (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id       TEXT    NOT NULL COLLATE BINARY CHECK (length(CAST(run_id AS BLOB)) BETWEEN 1 AND 64),
    lease_name   TEXT    NOT NULL COLLATE BINARY,
    owner_token  TEXT    NOT NULL COLLATE BINARY,
    fence_token  INTEGER NOT NULL,
    holder       TEXT    NOT NULL DEFAULT '',
    attempt      INTEGER NOT NULL DEFAULT 1 CHECK (attempt >= 1),
    slot         INTEGER, -- of the schedule, in milliseconds; NULL for a run that belongs to none
    missed       INTEGER NOT NULL DEFAULT 0,
    status       TEXT    NOT NULL CHECK (status IN ('running', 'succeeded', 'failed', 'partial', 'abandoned', 'stalled', 'skipped')),
    progress     TEXT,
    result       TEXT,
    error        TEXT    NOT NULL DEFAULT '',
    started_at   INTEGER NOT NULL CONSTRAINT started_at_is_in_milliseconds CHECK (started_at >= 100000000000),
    updated_at   INTEGER NOT NULL CONSTRAINT updated_at_is_in_milliseconds CHECK (updated_at >= 100000000000),
    finished_at  INTEGER CONSTRAINT finished_at_is_in_milliseconds CHECK (finished_at >= 100000000000),
    replaced_by  INTEGER,
    adopted_from INTEGER,
    actor        TEXT    NOT NULL DEFAULT '',
    UNIQUE (run_id),
    UNIQUE (lease_name, slot, attempt),
    CONSTRAINT finished_unless_running CHECK ((finished_at IS NULL) = (status = 'running'))
) STRICT;
-- +goose StatementEnd

-- One open run per lease, and the way to it when another takes over.
CREATE UNIQUE INDEX fencepost__runs_open ON fencepost_runs (lease_name) WHERE status = 'running';
CREATE INDEX fencepost__runs_lease ON fencepost_runs (lease_name, seq);
-- The next attempt of a job without a schedule looks at its last run, however many runs of slots came after that.
CREATE INDEX fencepost__runs_free ON fencepost_runs (lease_name, seq) WHERE slot IS NULL;

-- Completions that were refused.
-- +goose StatementBegin
CREATE TABLE fencepost_dead (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id        TEXT    NOT NULL COLLATE BINARY,
    lease_name    TEXT    NOT NULL COLLATE BINARY,
    fence_token   INTEGER NOT NULL,
    current_fence INTEGER NOT NULL DEFAULT 0,
    reason        TEXT    NOT NULL,
    holder        TEXT    NOT NULL DEFAULT '',
    slot          INTEGER,
    status        TEXT    NOT NULL CHECK (status IN ('succeeded', 'failed', 'partial', 'abandoned', 'stalled')),
    result        TEXT,
    error         TEXT    NOT NULL DEFAULT '',
    digest        TEXT    NOT NULL COLLATE BINARY CHECK (length(CAST(digest AS BLOB)) = 64),
    at            INTEGER NOT NULL CONSTRAINT at_is_in_milliseconds CHECK (at >= 100000000000),
    adopted_by    TEXT,
    adopted_as    TEXT    COLLATE BINARY,
    adopted_at    INTEGER CONSTRAINT adopted_at_is_in_milliseconds CHECK (adopted_at >= 100000000000),
    UNIQUE (run_id, digest)
) STRICT;
-- +goose StatementEnd

CREATE INDEX fencepost__dead_lease ON fencepost_dead (lease_name, id);

-- Whoever raises a fence, by whatever program, ends the run of the token before.
-- +goose StatementBegin
CREATE TRIGGER fencepost__leases_abandon AFTER UPDATE OF fence_token ON fencepost_leases WHEN NEW.fence_token > OLD.fence_token
BEGIN
    UPDATE fencepost_runs SET status = 'abandoned', replaced_by = NEW.fence_token,
        updated_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER), finished_at = CAST(round(unixepoch('subsec') * 1000) AS INTEGER)
    WHERE lease_name = NEW.lease_name AND status = 'running' AND fence_token < NEW.fence_token;
END;
-- +goose StatementEnd
