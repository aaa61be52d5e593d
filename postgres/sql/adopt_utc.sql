SET LOCAL TimeZone = 'UTC'
