INSERT INTO fencepost_results (job, result) VALUES ('reconciliation', 'nothing yet')
