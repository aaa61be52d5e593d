-- +goose Up
-- Names compare byte for byte. The pair (lease_name, fence_token) is unique so that it is a key: only then does the guard's
-- FOR KEY SHARE conflict with a takeover, which changes it, and not with a renewal, which does not.
-- No index on leased_until, and room on every page for a second version of its rows: renewals stay heap-only updates, also when all
-- leases are renewed by one statement.
CREATE TABLE fencepost_leases (
    lease_name     text COLLATE "C" NOT NULL,
    owner_token    text COLLATE "C" NOT NULL,
    fence_token    bigint NOT NULL,
    leased_until   timestamptz(6), -- null when free: arithmetic with '-infinity' raises
    holder         text NOT NULL DEFAULT '',
    ttl_ms         bigint NOT NULL DEFAULT 0,
    acquired_at    timestamptz(6),
    renewed_at     timestamptz(6),
    wanted         boolean NOT NULL DEFAULT false,
    preempted_by   text,
    preempt_reason text,
    CONSTRAINT fencepost__leases_pkey PRIMARY KEY (lease_name) WITH (fillfactor = 70),
    CONSTRAINT fencepost__leases_fence UNIQUE (lease_name, fence_token) WITH (fillfactor = 70),
    CONSTRAINT fencepost__leases_name CHECK (octet_length(lease_name) BETWEEN 1 AND 200),
    CONSTRAINT fencepost__leases_positive CHECK (fence_token >= 1 AND ttl_ms >= 0),
    CONSTRAINT fencepost__leases_finite CHECK (isfinite(leased_until))
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE fencepost_events (
    id          bigint GENERATED ALWAYS AS IDENTITY,
    lease_name  text COLLATE "C" NOT NULL,
    kind        text NOT NULL,
    fence_token bigint NOT NULL,
    holder      text NOT NULL DEFAULT '',
    actor       text NOT NULL DEFAULT '',
    reason      text NOT NULL DEFAULT '',
    at          timestamptz(6) NOT NULL,
    CONSTRAINT fencepost__events_pkey PRIMARY KEY (id)
);

CREATE INDEX fencepost__events_lease ON fencepost_events (lease_name, id);

-- +goose StatementBegin
CREATE FUNCTION fencepost_keep() RETURNS trigger LANGUAGE plpgsql AS $fencepost$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        RAISE EXCEPTION 'fencepost: a lease keeps its name, its fence never falls, and a new owner needs a higher fence';
    END IF;
    RAISE EXCEPTION 'fencepost: leases are never deleted, because their fences must never start again';
END
$fencepost$;
-- +goose StatementEnd

-- The condition stands in the trigger, so that the function is called for a violation only; and after the update, so that it sees what
-- other triggers made of the row.
CREATE TRIGGER fencepost__leases_keep AFTER UPDATE ON fencepost_leases
    FOR EACH ROW WHEN (NEW.lease_name <> OLD.lease_name OR NEW.fence_token < OLD.fence_token
        OR NEW.owner_token <> OLD.owner_token AND NEW.fence_token = OLD.fence_token)
    EXECUTE FUNCTION fencepost_keep();
CREATE TRIGGER fencepost__leases_delete BEFORE DELETE ON fencepost_leases
    FOR EACH ROW EXECUTE FUNCTION fencepost_keep();
CREATE TRIGGER fencepost__leases_truncate BEFORE TRUNCATE ON fencepost_leases
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_keep();

-- Events are written by triggers, so that a change by any program is in the history.
-- +goose StatementBegin
CREATE FUNCTION fencepost_note() RETURNS trigger LANGUAGE plpgsql AS $fencepost$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.fence_token = OLD.fence_token THEN
            INSERT INTO fencepost_events (lease_name, kind, fence_token, holder, at)
            VALUES (NEW.lease_name, 'released', NEW.fence_token, NEW.holder, clock_timestamp());
            RETURN NULL;
        END IF;
        INSERT INTO fencepost_events (lease_name, kind, fence_token, holder, actor, reason, at)
        VALUES (NEW.lease_name,
            CASE WHEN NEW.preempted_by IS NOT NULL THEN 'preempted' WHEN OLD.leased_until IS NULL THEN 'acquired' ELSE 'taken_over' END,
            NEW.fence_token, NEW.holder, coalesce(NEW.preempted_by, ''), coalesce(NEW.preempt_reason, ''),
            coalesce(NEW.acquired_at, clock_timestamp()));
        RETURN NULL;
    END IF;
    INSERT INTO fencepost_events (lease_name, kind, fence_token, holder, at)
    VALUES (NEW.lease_name, 'acquired', NEW.fence_token, NEW.holder, coalesce(NEW.acquired_at, clock_timestamp()));
    RETURN NULL;
END
$fencepost$;
-- +goose StatementEnd

-- A row that is created free was adopted, not acquired.
CREATE TRIGGER fencepost__leases_created AFTER INSERT ON fencepost_leases
    FOR EACH ROW WHEN (NEW.leased_until IS NOT NULL) EXECUTE FUNCTION fencepost_note();
CREATE TRIGGER fencepost__leases_granted AFTER UPDATE OF fence_token ON fencepost_leases
    FOR EACH ROW WHEN (NEW.fence_token > OLD.fence_token AND (NEW.leased_until IS NOT NULL OR NEW.preempted_by IS NOT NULL))
    EXECUTE FUNCTION fencepost_note();
CREATE TRIGGER fencepost__leases_released AFTER UPDATE OF leased_until ON fencepost_leases
    FOR EACH ROW WHEN (NEW.leased_until IS NULL AND OLD.leased_until IS NOT NULL AND NEW.fence_token = OLD.fence_token)
    EXECUTE FUNCTION fencepost_note();

-- The guard as a statement that raises: in a pipeline it makes everything after it, and before it, be rolled back. It locks the
-- row until the transaction ends, and reads the clock after any wait for the lock. FOR KEY SHARE shows the snapshot's version of a row that was
-- renewed after the snapshot, so an expired one is looked at again: by a new snapshot or, where the transaction has
-- only one, in a mode that fails when there is a newer version. It says why in its DETAIL, without the owner tokens: an error is logged.
-- +goose StatementBegin
CREATE FUNCTION fencepost_guard(name text, owner text, fence bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $fencepost$
DECLARE
    lease record;
    reason text;
BEGIN
    SELECT l.owner_token, l.fence_token, l.leased_until, l.holder INTO lease
    FROM fencepost_leases AS l WHERE l.lease_name = name FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'LF001', MESSAGE = 'fencepost: stale token: unknown_name',
            DETAIL = json_build_object('lease', name, 'reason', 'unknown_name', 'presented', fence)::text;
    END IF;
    IF lease.fence_token = fence AND lease.leased_until <= clock_timestamp() THEN
        IF current_setting('transaction_isolation') = 'read committed' THEN
            SELECT l.owner_token, l.fence_token, l.leased_until, l.holder INTO lease
            FROM fencepost_leases AS l WHERE l.lease_name = name FOR KEY SHARE;
        ELSE
            PERFORM FROM fencepost_leases AS l WHERE l.lease_name = name FOR SHARE;
        END IF;
    END IF;
    IF lease.fence_token > fence THEN
        reason := 'superseded';
    ELSIF lease.fence_token < fence OR lease.owner_token <> owner THEN
        reason := 'not_granted';
    ELSIF lease.leased_until IS NULL THEN
        reason := 'released';
    ELSIF lease.leased_until <= clock_timestamp() THEN
        reason := 'expired';
    ELSE
        RETURN;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'LF001', MESSAGE = 'fencepost: stale token: ' || reason,
        DETAIL = json_build_object('lease', name, 'reason', reason, 'presented', fence, 'current', lease.fence_token, 'holder', lease.holder)::text;
END
$fencepost$;
-- +goose StatementEnd
