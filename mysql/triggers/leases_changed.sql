-- Fences never fall, an owner changes only with a higher fence, names never change; and every change of holder is an event
-- in its own transaction. A renewal passes the first line and costs nothing more.
CREATE TRIGGER fencepost_leases_changed BEFORE UPDATE ON fencepost_leases FOR EACH ROW
BEGIN
    IF NEW.fence_token <> OLD.fence_token OR NEW.owner_token <> OLD.owner_token OR NEW.lease_name <> OLD.lease_name OR NEW.leased_until IS NULL THEN
        IF NEW.lease_name <> OLD.lease_name THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'fencepost: the name of a lease never changes';
        ELSEIF NEW.fence_token < OLD.fence_token THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'fencepost: the fence of a lease never falls';
        ELSEIF NEW.owner_token <> OLD.owner_token AND NEW.fence_token = OLD.fence_token THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'fencepost: a new owner of a lease needs a higher fence';
        ELSEIF NOT (NEW.acquired_at <=> OLD.acquired_at)
            OR NEW.owner_token <> OLD.owner_token AND (NEW.leased_until IS NOT NULL OR NEW.preempted_by IS NOT NULL) THEN
            INSERT INTO fencepost_events (lease_name, kind, fence_token, holder, actor, reason, at)
            VALUES (NEW.lease_name,
                CASE WHEN NEW.preempted_by IS NOT NULL THEN 'preempted' WHEN OLD.leased_until IS NULL THEN 'acquired' ELSE 'taken_over' END,
                NEW.fence_token, NEW.holder, COALESCE(NEW.preempted_by, ''), COALESCE(NEW.preempt_reason, ''),
                COALESCE(NEW.acquired_at, UTC_TIMESTAMP(6)));
        ELSEIF NEW.leased_until IS NULL AND OLD.leased_until IS NOT NULL THEN
            INSERT INTO fencepost_events (lease_name, kind, fence_token, holder, at)
            VALUES (NEW.lease_name, 'released', NEW.fence_token, NEW.holder,
                -- After a lock wait only SYSDATE is right, and SYSDATE is UTC only where the session is.
                IF(@@session.time_zone = '+00:00', SYSDATE(6), UTC_TIMESTAMP(6)));
        END IF;
    END IF;
END
