-- What is adopted must not be used by its old system in between.
LOCK TABLE "adopted_table" IN SHARE MODE
