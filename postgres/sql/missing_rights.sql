SELECT coalesce(array_agg(format('GRANT %s ON %s TO %I', needed.privilege, needed.relation, current_user)), '{}')
FROM (VALUES ($1::text, 'SELECT'), ($1, 'INSERT'), ($1, 'UPDATE'), ($2::text, 'SELECT'), ($2, 'INSERT')) AS needed (relation, privilege)
WHERE NOT has_table_privilege(needed.relation, needed.privilege)
