SET @add = IF(EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'rights' AND column_name = 'revision'),
  'DO 0', 'ALTER TABLE rights ADD COLUMN revision BIGINT NOT NULL DEFAULT 0');
PREPARE add_column FROM @add;
EXECUTE add_column;
DEALLOCATE PREPARE add_column;
UPDATE rights SET revision = (SELECT last FROM revisions WHERE id = 1);
