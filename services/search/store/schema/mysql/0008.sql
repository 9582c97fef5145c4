SET @add = IF(EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'changes' AND column_name = 'cluster_id'),
  'DO 0', 'ALTER TABLE changes ADD COLUMN cluster_id BIGINT NOT NULL DEFAULT 0');
PREPARE add_column FROM @add;
EXECUTE add_column;
DEALLOCATE PREPARE add_column;
UPDATE changes SET cluster_id = COALESCE((SELECT id FROM clusters WHERE name = changes.cluster), 0);
