SELECT 'pong'
