CREATE SCHEMA "created_schema"
