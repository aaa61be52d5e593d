SELECT result FROM fencepost_results WHERE job = 'reconciliation'
