-- A name that the snapshot does not show may exist all the same: then this fails. It is rolled back in any case.
INSERT INTO fencepost_leases (lease_name, owner_token, fence_token) VALUES ($1::text, '', 1) ON CONFLICT (lease_name) DO NOTHING
