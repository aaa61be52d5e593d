-- +goose Up
-- Names compare byte for byte. The pair (lease_name, fence_token) is unique so that it is a key: only then does the guard's
-- FOR KEY SHARE conflict with a takeover, which changes it, and not with a renewal, which does not.
-- No index on leased_until: renewals stay heap-only updates.
CREATE TABLE fencepost_leases (
    lease_name     text COLLATE "C" NOT NULL,
    owner_token    text COLLATE "C" NOT NULL,
    fence_token    bigint NOT NULL,
    leased_until   timestamptz(6), -- null when free: subtracting from '-infinity' raises
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
    CONSTRAINT fencepost__leases_positive CHECK (fence_token >= 1 AND ttl_ms >= 0)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

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
CREATE FUNCTION fencepost_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'UPDATE' THEN
        RAISE EXCEPTION 'fencepost: leases are never deleted, because their fences must never start again';
    END IF;
    IF NEW.lease_name <> OLD.lease_name OR NEW.fence_token < OLD.fence_token
        OR (NEW.owner_token <> OLD.owner_token AND NEW.fence_token = OLD.fence_token) THEN
        RAISE EXCEPTION 'fencepost: a lease keeps its name, its fence never falls, and a new owner needs a higher fence';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd

-- A renewal sets none of these columns and so pays nothing for the trigger.
CREATE TRIGGER fencepost__leases_keep BEFORE UPDATE OF lease_name, owner_token, fence_token ON fencepost_leases
    FOR EACH ROW EXECUTE FUNCTION fencepost_keep();
CREATE TRIGGER fencepost__leases_delete BEFORE DELETE ON fencepost_leases
    FOR EACH ROW EXECUTE FUNCTION fencepost_keep();
CREATE TRIGGER fencepost__leases_truncate BEFORE TRUNCATE ON fencepost_leases
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_keep();

-- +goose StatementBegin
CREATE FUNCTION fencepost_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO fencepost_events (lease_name, kind, fence_token, holder, actor, reason, at)
    VALUES (NEW.lease_name,
        CASE WHEN TG_OP = 'INSERT' THEN 'acquired'
            WHEN NEW.fence_token = OLD.fence_token THEN 'released'
            WHEN NEW.preempted_by IS NOT NULL THEN 'preempted'
            WHEN OLD.leased_until IS NULL THEN 'acquired'
            ELSE 'taken_over' END,
        NEW.fence_token, NEW.holder,
        CASE WHEN TG_OP = 'INSERT' OR NEW.fence_token > OLD.fence_token THEN coalesce(NEW.preempted_by, '') ELSE '' END,
        CASE WHEN TG_OP = 'INSERT' OR NEW.fence_token > OLD.fence_token THEN coalesce(NEW.preempt_reason, '') ELSE '' END,
        clock_timestamp());
    RETURN NULL;
END
$$;
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
-- row at its newest version until the transaction ends, and reads the clock after any wait for the lock.
-- +goose StatementBegin
CREATE FUNCTION fencepost_guard(name text, owner text, fence bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    l record;
    reason text;
BEGIN
    SELECT owner_token, fence_token, leased_until, holder INTO l
    FROM fencepost_leases WHERE lease_name = name FOR KEY SHARE;
    IF NOT FOUND THEN
        reason := 'unknown_name';
    ELSIF l.fence_token > fence THEN
        reason := 'superseded';
    ELSIF l.fence_token < fence OR l.owner_token <> owner THEN
        reason := 'not_granted';
    ELSIF l.leased_until IS NULL THEN
        reason := 'released';
    ELSIF l.leased_until <= clock_timestamp() THEN
        reason := 'expired';
    ELSE
        RETURN;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'FP001', MESSAGE = 'fencepost: stale token: ' || reason,
        DETAIL = json_build_object('lease', name, 'reason', reason, 'presented', fence,
            'current', CASE WHEN reason <> 'unknown_name' THEN l.fence_token ELSE 0 END,
            'holder', CASE WHEN reason <> 'unknown_name' THEN l.holder ELSE '' END)::text;
END
$$;
-- +goose StatementEnd
