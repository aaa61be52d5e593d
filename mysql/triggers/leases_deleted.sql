-- A deleted row would start its fence again at 1, below fences that old holders still carry.
CREATE TRIGGER fencepost_leases_deleted BEFORE DELETE ON fencepost_leases FOR EACH ROW
SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'fencepost: leases are never deleted, because their fences must never start again'
