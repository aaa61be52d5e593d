UPDATE fencepost_results SET result = 'A: 3 orphans, as it was before the pause' WHERE job = 'reconciliation'
