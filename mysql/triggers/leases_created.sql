-- The first acquisition of a name is an event too. A row that is created free was adopted, not acquired.
CREATE TRIGGER fencepost_leases_created AFTER INSERT ON fencepost_leases FOR EACH ROW
BEGIN
    IF NEW.leased_until IS NOT NULL THEN
        INSERT INTO fencepost_events (lease_name, kind, fence_token, holder, at)
        VALUES (NEW.lease_name, 'acquired', NEW.fence_token, NEW.holder, COALESCE(NEW.acquired_at, UTC_TIMESTAMP(6)));
    END IF;
END
