CREATE TABLE IF NOT EXISTS clusters (
  id   BIGINT AUTO_INCREMENT PRIMARY KEY,
  name VARCHAR(253) NOT NULL UNIQUE
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ROW_FORMAT=DYNAMIC;
CREATE TABLE IF NOT EXISTS kinds (
  id         BIGINT AUTO_INCREMENT PRIMARY KEY,
  api_group  VARCHAR(253) NOT NULL,
  version    VARCHAR(63) NOT NULL,
  resource   VARCHAR(253) NOT NULL,
  kind       VARCHAR(253) NOT NULL,
  namespaced BOOLEAN NOT NULL,
  UNIQUE (api_group, version, resource)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ROW_FORMAT=DYNAMIC;
CREATE TABLE IF NOT EXISTS streams (
  id               BIGINT AUTO_INCREMENT PRIMARY KEY,
  cluster_id       BIGINT NOT NULL,
  kind_id          BIGINT NOT NULL,
  epoch            BIGINT NOT NULL,
  resource_version VARCHAR(255) NOT NULL,
  listed           BOOLEAN NOT NULL,
  heard_at         BIGINT NOT NULL,
  opened_at        BIGINT NOT NULL,
  details          MEDIUMTEXT NOT NULL,
  UNIQUE (cluster_id, kind_id),
  INDEX streams_kind (kind_id)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ROW_FORMAT=DYNAMIC;
CREATE TABLE IF NOT EXISTS revisions (
  id   INTEGER PRIMARY KEY,
  last BIGINT NOT NULL
);
INSERT IGNORE INTO revisions (id, last) VALUES (1, 0);
CREATE TABLE IF NOT EXISTS objects (
  id               BIGINT PRIMARY KEY,
  kind_id          BIGINT NOT NULL,
  cluster_id       BIGINT NOT NULL,
  namespace        VARCHAR(63) NOT NULL,
  name             VARCHAR(512) NOT NULL,
  uid              VARCHAR(64) NOT NULL,
  resource_version VARCHAR(255) NOT NULL,
  created_at       BIGINT NOT NULL,
  revision         BIGINT NOT NULL,
  listing          BIGINT NOT NULL,
  object           JSON NOT NULL,
  UNIQUE (kind_id, cluster_id, namespace, name),
  INDEX objects_order (kind_id, namespace, name, cluster_id),
  INDEX objects_name (name, kind_id),
  INDEX objects_created (kind_id, created_at)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ROW_FORMAT=DYNAMIC;
CREATE TABLE IF NOT EXISTS owners (
  owner_uid  VARCHAR(64) NOT NULL,
  cluster_id BIGINT NOT NULL,
  object_id  BIGINT NOT NULL,
  PRIMARY KEY (owner_uid, cluster_id, object_id),
  INDEX owners_object (object_id)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ROW_FORMAT=DYNAMIC;
CREATE TABLE IF NOT EXISTS labels (
  label     VARCHAR(317) NOT NULL,
  value     VARCHAR(63) NOT NULL,
  kind_id   BIGINT NOT NULL,
  object_id BIGINT NOT NULL,
  PRIMARY KEY (label, value, kind_id, object_id),
  INDEX labels_object (object_id, label, value)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ROW_FORMAT=DYNAMIC;
