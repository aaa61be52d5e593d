UPDATE fencepost_results SET result = 'B: 5 orphans, as it is now' WHERE job = 'reconciliation'
