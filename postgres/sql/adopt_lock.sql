LOCK TABLE "adopted_table" IN SHARE MODE
