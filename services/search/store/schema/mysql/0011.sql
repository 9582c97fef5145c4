-- Each cluster has a generation of its own. Replicas of earlier versions raise none, so without the tables that they use they neither copy RBAC objects nor
-- show anything by them.
DROP TABLE IF EXISTS rights;
DROP TABLE IF EXISTS stream_rights;
CREATE TABLE IF NOT EXISTS rights_changes (
  id      INTEGER PRIMARY KEY,
  changed BIGINT NOT NULL,
  removed BIGINT NOT NULL
) ROW_FORMAT=DYNAMIC;
INSERT IGNORE INTO rights_changes (id, changed, removed) SELECT 1, last, last FROM revisions;
SET @add = IF(EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'cluster_rights' AND column_name = 'generation'),
  'DO 0', 'ALTER TABLE cluster_rights ADD COLUMN generation BIGINT NOT NULL DEFAULT 0');
PREPARE add_column FROM @add;
EXECUTE add_column;
DEALLOCATE PREPARE add_column;
UPDATE cluster_rights SET generation = (SELECT last FROM revisions WHERE id = 1);
CREATE TABLE IF NOT EXISTS unreadable_rights (
  stream_id BIGINT NOT NULL,
  namespace VARCHAR(63) NOT NULL,
  name      VARCHAR(512) NOT NULL,
  reason    TEXT NOT NULL,
  listing   BIGINT NOT NULL,
  PRIMARY KEY (stream_id, namespace, name)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ROW_FORMAT=DYNAMIC;
SET @add = IF(EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'clusters' AND column_name = 'since'),
  'DO 0', 'ALTER TABLE clusters ADD COLUMN uid VARCHAR(64) NOT NULL DEFAULT '''', ADD COLUMN since BIGINT NOT NULL DEFAULT 0');
PREPARE add_column FROM @add;
EXECUTE add_column;
DEALLOCATE PREPARE add_column;
CREATE TABLE IF NOT EXISTS namespaces (
  cluster_id BIGINT NOT NULL,
  name       VARCHAR(512) NOT NULL,
  uid        VARCHAR(64) NOT NULL,
  since      BIGINT NOT NULL,
  PRIMARY KEY (cluster_id, name),
  KEY namespaces_since (since)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ROW_FORMAT=DYNAMIC;
SET @nopad = (SELECT collation_name FROM information_schema.collations WHERE collation_name IN ('utf8mb4_0900_bin', 'utf8mb4_nopad_bin') ORDER BY collation_name DESC LIMIT 1);
SET @pad = IF((SELECT table_collation FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'unreadable_rights') = @nopad,
  'DO 0', CONCAT('ALTER TABLE unreadable_rights CONVERT TO CHARACTER SET utf8mb4 COLLATE ', @nopad));
PREPARE convert_table FROM @pad;
EXECUTE convert_table;
DEALLOCATE PREPARE convert_table;
SET @pad = IF((SELECT table_collation FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'namespaces') = @nopad,
  'DO 0', CONCAT('ALTER TABLE namespaces CONVERT TO CHARACTER SET utf8mb4 COLLATE ', @nopad));
PREPARE convert_table FROM @pad;
EXECUTE convert_table;
DEALLOCATE PREPARE convert_table;
INSERT IGNORE INTO namespaces (cluster_id, name, uid, since)
SELECT o.cluster_id, o.name, o.uid, r.last FROM objects o JOIN kinds k ON k.id = o.kind_id JOIN revisions r ON r.id = 1
WHERE k.api_group = '' AND k.version = 'v1' AND k.resource = 'namespaces';
