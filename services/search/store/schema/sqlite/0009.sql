ALTER TABLE rights ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
UPDATE rights SET revision = (SELECT last FROM revisions WHERE id = 1);
