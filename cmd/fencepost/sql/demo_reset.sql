UPDATE fencepost_results SET result = 'nothing yet' WHERE job = 'reconciliation'
