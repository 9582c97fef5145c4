ALTER TABLE changes ADD COLUMN cluster_id INTEGER NOT NULL DEFAULT 0;
UPDATE changes SET cluster_id = COALESCE((SELECT id FROM clusters WHERE name = changes.cluster), 0);
