-- Searches lock rights before objects, and so does this.
ALTER TABLE rights ADD COLUMN revision BIGINT NOT NULL DEFAULT 0;
UPDATE rights SET revision = (SELECT last FROM revisions WHERE id = 1);
-- A write that finds this many kB pending moves them into the index, and all other writers wait. With the 4 MB that PostgreSQL allows, they waited for up to a second
-- at 1,000 changes a second. Searches read what is pending from the beginning to the end.
ALTER INDEX objects_fields SET (gin_pending_list_limit = 512);
ALTER INDEX objects_label_terms SET (gin_pending_list_limit = 512);
ALTER INDEX IF EXISTS objects_name_part SET (gin_pending_list_limit = 512);
