CREATE TABLE IF NOT EXISTS documents (
  digest   VARCHAR(64) PRIMARY KEY,
  document LONGBLOB NOT NULL
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ROW_FORMAT=DYNAMIC;
CREATE TABLE IF NOT EXISTS openapi (
  cluster_id BIGINT NOT NULL,
  path       VARCHAR(320) NOT NULL,
  version    VARCHAR(512) NOT NULL,
  digest     VARCHAR(64) NOT NULL,
  PRIMARY KEY (path, cluster_id),
  INDEX openapi_cluster (cluster_id),
  INDEX openapi_digest (digest)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ROW_FORMAT=DYNAMIC;
CREATE TABLE IF NOT EXISTS events (
  cluster_id         BIGINT NOT NULL,
  uid                VARCHAR(64) NOT NULL,
  involved_kind      VARCHAR(63) NOT NULL,
  involved_namespace VARCHAR(63) NOT NULL,
  involved_name      VARCHAR(512) NOT NULL,
  involved_uid       VARCHAR(253) NOT NULL,
  seen_at            BIGINT NOT NULL,
  event              MEDIUMTEXT NOT NULL,
  PRIMARY KEY (cluster_id, uid),
  INDEX events_involved (cluster_id, involved_kind, involved_namespace, involved_name),
  INDEX events_seen (seen_at)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ROW_FORMAT=DYNAMIC;
