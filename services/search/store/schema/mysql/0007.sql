SET @add = IF(EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'streams' AND column_name = 'counted'),
  'DO 0', 'ALTER TABLE streams ADD COLUMN objects BIGINT NOT NULL DEFAULT 0, ADD COLUMN counted BIGINT NOT NULL DEFAULT -1');
PREPARE add_column FROM @add;
EXECUTE add_column;
DEALLOCATE PREPARE add_column;
