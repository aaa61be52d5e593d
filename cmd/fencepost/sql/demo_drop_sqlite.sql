DROP TABLE fencepost_results;
DROP TABLE fencepost_dead;
DROP TABLE fencepost_runs;
DROP TABLE fencepost_events;
DROP TABLE fencepost_leases;
DROP TABLE fencepost_schema_version;
