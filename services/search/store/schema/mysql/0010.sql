SET @add = IF(EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'streams' AND column_name = 'form'),
  'DO 0', 'ALTER TABLE streams ADD COLUMN kind VARCHAR(253), ADD COLUMN namespaced BOOLEAN, ADD COLUMN form BIGINT NOT NULL DEFAULT -1');
PREPARE add_column FROM @add;
EXECUTE add_column;
DEALLOCATE PREPARE add_column;
CREATE TABLE IF NOT EXISTS originals (
  revision BIGINT PRIMARY KEY,
  object   LONGBLOB NOT NULL
) ROW_FORMAT=DYNAMIC;
-- Texts that differ in blanks at their end are different texts. MySQL and MariaDB have other names for that.
SET @nopad = (SELECT collation_name FROM information_schema.collations WHERE collation_name IN ('utf8mb4_0900_bin', 'utf8mb4_nopad_bin') ORDER BY collation_name DESC LIMIT 1);
SET @pad = IF((SELECT table_collation FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'clusters') = @nopad,
  'DO 0', CONCAT('ALTER TABLE clusters CONVERT TO CHARACTER SET utf8mb4 COLLATE ', @nopad));
PREPARE convert_table FROM @pad;
EXECUTE convert_table;
DEALLOCATE PREPARE convert_table;
SET @pad = IF((SELECT table_collation FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'kinds') = @nopad,
  'DO 0', CONCAT('ALTER TABLE kinds CONVERT TO CHARACTER SET utf8mb4 COLLATE ', @nopad));
PREPARE convert_table FROM @pad;
EXECUTE convert_table;
DEALLOCATE PREPARE convert_table;
SET @pad = IF((SELECT table_collation FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'streams') = @nopad,
  'DO 0', CONCAT('ALTER TABLE streams CONVERT TO CHARACTER SET utf8mb4 COLLATE ', @nopad));
PREPARE convert_table FROM @pad;
EXECUTE convert_table;
DEALLOCATE PREPARE convert_table;
SET @pad = IF((SELECT table_collation FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'objects') = @nopad,
  'DO 0', CONCAT('ALTER TABLE objects CONVERT TO CHARACTER SET utf8mb4 COLLATE ', @nopad));
PREPARE convert_table FROM @pad;
EXECUTE convert_table;
DEALLOCATE PREPARE convert_table;
SET @pad = IF((SELECT table_collation FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'versions') = @nopad,
  'DO 0', CONCAT('ALTER TABLE versions CONVERT TO CHARACTER SET utf8mb4 COLLATE ', @nopad));
PREPARE convert_table FROM @pad;
EXECUTE convert_table;
DEALLOCATE PREPARE convert_table;
SET @pad = IF((SELECT table_collation FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'owners') = @nopad,
  'DO 0', CONCAT('ALTER TABLE owners CONVERT TO CHARACTER SET utf8mb4 COLLATE ', @nopad));
PREPARE convert_table FROM @pad;
EXECUTE convert_table;
DEALLOCATE PREPARE convert_table;
SET @pad = IF((SELECT table_collation FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'labels') = @nopad,
  'DO 0', CONCAT('ALTER TABLE labels CONVERT TO CHARACTER SET utf8mb4 COLLATE ', @nopad));
PREPARE convert_table FROM @pad;
EXECUTE convert_table;
DEALLOCATE PREPARE convert_table;
SET @pad = IF((SELECT table_collation FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'documents') = @nopad,
  'DO 0', CONCAT('ALTER TABLE documents CONVERT TO CHARACTER SET utf8mb4 COLLATE ', @nopad));
PREPARE convert_table FROM @pad;
EXECUTE convert_table;
DEALLOCATE PREPARE convert_table;
SET @pad = IF((SELECT table_collation FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'openapi') = @nopad,
  'DO 0', CONCAT('ALTER TABLE openapi CONVERT TO CHARACTER SET utf8mb4 COLLATE ', @nopad));
PREPARE convert_table FROM @pad;
EXECUTE convert_table;
DEALLOCATE PREPARE convert_table;
SET @pad = IF((SELECT table_collation FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'events') = @nopad,
  'DO 0', CONCAT('ALTER TABLE events CONVERT TO CHARACTER SET utf8mb4 COLLATE ', @nopad));
PREPARE convert_table FROM @pad;
EXECUTE convert_table;
DEALLOCATE PREPARE convert_table;
SET @pad = IF((SELECT table_collation FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'replicas') = @nopad,
  'DO 0', CONCAT('ALTER TABLE replicas CONVERT TO CHARACTER SET utf8mb4 COLLATE ', @nopad));
PREPARE convert_table FROM @pad;
EXECUTE convert_table;
DEALLOCATE PREPARE convert_table;
SET @pad = IF((SELECT table_collation FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'stream_states') = @nopad,
  'DO 0', CONCAT('ALTER TABLE stream_states CONVERT TO CHARACTER SET utf8mb4 COLLATE ', @nopad));
PREPARE convert_table FROM @pad;
EXECUTE convert_table;
DEALLOCATE PREPARE convert_table;
SET @pad = IF((SELECT table_collation FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'cluster_rights') = @nopad,
  'DO 0', CONCAT('ALTER TABLE cluster_rights CONVERT TO CHARACTER SET utf8mb4 COLLATE ', @nopad));
PREPARE convert_table FROM @pad;
EXECUTE convert_table;
DEALLOCATE PREPARE convert_table;
SET @pad = IF((SELECT table_collation FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'changes') = @nopad,
  'DO 0', CONCAT('ALTER TABLE changes CONVERT TO CHARACTER SET utf8mb4 COLLATE ', @nopad));
PREPARE convert_table FROM @pad;
EXECUTE convert_table;
DEALLOCATE PREPARE convert_table;
