CREATE TABLE IF NOT EXISTS changes (
  revision     BIGINT PRIMARY KEY,
  previous     BIGINT NOT NULL,
  deleted      BOOLEAN NOT NULL,
  object_id    BIGINT NOT NULL,
  kind_id      BIGINT NOT NULL,
  cluster      VARCHAR(253) NOT NULL,
  namespace    VARCHAR(63) NOT NULL,
  name         VARCHAR(512) NOT NULL,
  committed_at BIGINT NOT NULL
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ROW_FORMAT=DYNAMIC;
CREATE TABLE IF NOT EXISTS versions (
  revision BIGINT PRIMARY KEY,
  object   JSON NOT NULL
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ROW_FORMAT=DYNAMIC;
CREATE TABLE IF NOT EXISTS history (
  id        INTEGER PRIMARY KEY,
  pruned    BIGINT NOT NULL,
  pruned_at BIGINT NOT NULL
);
INSERT IGNORE INTO history (id, pruned, pruned_at) SELECT 1, last, UNIX_TIMESTAMP() * 1000 FROM revisions;
UPDATE objects SET resource_version = '';
UPDATE streams SET resource_version = '';
