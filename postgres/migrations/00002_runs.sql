-- +goose Up
-- Every execution of a job, as its token wrote it. JSON is kept as text, so that it comes back byte for byte. Room on every page for another
-- version of a row: most are written once more, and those that report progress often.
CREATE TABLE fencepost_runs (
    seq          bigint GENERATED ALWAYS AS IDENTITY,
    run_id       text COLLATE "C" NOT NULL,
    lease_name   text COLLATE "C" NOT NULL,
    owner_token  text COLLATE "C" NOT NULL,
    fence_token  bigint NOT NULL,
    holder       text NOT NULL DEFAULT '',
    attempt      integer NOT NULL DEFAULT 1,
    slot         timestamptz(6), -- null for a run that belongs to no schedule
    missed       bigint NOT NULL DEFAULT 0,
    status       text COLLATE "C" NOT NULL,
    progress     text,
    result       text,
    error        text NOT NULL DEFAULT '',
    started_at   timestamptz(6) NOT NULL,
    updated_at   timestamptz(6) NOT NULL,
    finished_at  timestamptz(6),
    replaced_by  bigint,
    adopted_from bigint,
    actor        text NOT NULL DEFAULT '',
    CONSTRAINT fencepost__runs_pkey PRIMARY KEY (seq),
    CONSTRAINT fencepost__runs_id UNIQUE (run_id),
    CONSTRAINT fencepost__runs_slot UNIQUE (lease_name, slot, attempt),
    CONSTRAINT fencepost__runs_status CHECK (status IN ('running', 'succeeded', 'failed', 'partial', 'abandoned', 'stalled', 'skipped')),
    CONSTRAINT fencepost__runs_finished CHECK ((finished_at IS NULL) = (status = 'running')),
    CONSTRAINT fencepost__runs_size CHECK (octet_length(run_id) BETWEEN 1 AND 64)
) WITH (fillfactor = 70);

-- One open run per lease, and the way to it when another takes over.
CREATE UNIQUE INDEX fencepost__runs_open ON fencepost_runs (lease_name) WHERE status = 'running';
CREATE INDEX fencepost__runs_lease ON fencepost_runs (lease_name, seq);
-- The next attempt of a job without a schedule looks at its last run, however many runs of slots came after that.
CREATE INDEX fencepost__runs_free ON fencepost_runs (lease_name, seq) WHERE slot IS NULL;

-- Completions that were refused.
CREATE TABLE fencepost_dead (
    id            bigint GENERATED ALWAYS AS IDENTITY,
    run_id        text COLLATE "C" NOT NULL,
    lease_name    text COLLATE "C" NOT NULL,
    fence_token   bigint NOT NULL,
    current_fence bigint NOT NULL DEFAULT 0,
    reason        text NOT NULL,
    holder        text NOT NULL DEFAULT '',
    slot          timestamptz(6),
    status        text COLLATE "C" NOT NULL,
    result        text,
    error         text NOT NULL DEFAULT '',
    digest        text COLLATE "C" NOT NULL,
    at            timestamptz(6) NOT NULL,
    adopted_by    text,
    adopted_as    text COLLATE "C",
    adopted_at    timestamptz(6),
    CONSTRAINT fencepost__dead_pkey PRIMARY KEY (id),
    CONSTRAINT fencepost__dead_once UNIQUE (run_id, digest),
    CONSTRAINT fencepost__dead_status CHECK (status IN ('succeeded', 'failed', 'partial', 'abandoned', 'stalled')),
    CONSTRAINT fencepost__dead_digest CHECK (octet_length(digest) = 64)
);

CREATE INDEX fencepost__dead_lease ON fencepost_dead (lease_name, id);

-- Whoever raises a fence, by whatever program, ends the run of the token before. It is done with the rights of the owner, so that a takeover
-- needs none on the runs: programs of before this version go on. A transaction with a snapshot of its own may not see a run that was started
-- after it: a row of the same key fails then, and the takeover is tried again.
-- +goose StatementBegin
CREATE FUNCTION fencepost_abandon() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    UPDATE fencepost_runs SET status = 'abandoned', replaced_by = NEW.fence_token, updated_at = moment, finished_at = moment
    WHERE lease_name = NEW.lease_name AND status = 'running' AND fence_token < NEW.fence_token;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        INSERT INTO fencepost_runs (run_id, lease_name, owner_token, fence_token, status, started_at, updated_at)
        VALUES ('?' || pg_current_xact_id()::text, NEW.lease_name, '', 0, 'running', moment, moment)
        ON CONFLICT (lease_name) WHERE status = 'running' DO NOTHING;
        DELETE FROM fencepost_runs WHERE run_id = '?' || pg_current_xact_id()::text;
    END IF;
    RETURN NULL;
END
$fencepost$;
-- +goose StatementEnd

-- A trigger runs without this right; who could make one of his own with the function could end any run.
REVOKE ALL ON FUNCTION fencepost_abandon() FROM PUBLIC;

CREATE TRIGGER fencepost__leases_abandon AFTER UPDATE OF fence_token ON fencepost_leases
    FOR EACH ROW WHEN (NEW.fence_token > OLD.fence_token) EXECUTE FUNCTION fencepost_abandon();
