CREATE TABLE clusters (
  id   BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name TEXT COLLATE "C" NOT NULL UNIQUE
);
CREATE TABLE kinds (
  id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  api_group  TEXT COLLATE "C" NOT NULL,
  version    TEXT COLLATE "C" NOT NULL,
  resource   TEXT COLLATE "C" NOT NULL,
  kind       TEXT COLLATE "C" NOT NULL,
  namespaced BOOLEAN NOT NULL,
  UNIQUE (api_group, version, resource)
);
CREATE TABLE streams (
  id               BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  cluster_id       BIGINT NOT NULL,
  kind_id          BIGINT NOT NULL,
  epoch            BIGINT NOT NULL,
  resource_version TEXT NOT NULL,
  listed           BOOLEAN NOT NULL,
  heard_at         BIGINT NOT NULL,
  opened_at        BIGINT NOT NULL,
  details          TEXT NOT NULL,
  UNIQUE (cluster_id, kind_id)
);
CREATE INDEX streams_kind ON streams (kind_id);
CREATE TABLE revisions (
  id   INTEGER PRIMARY KEY CHECK (id = 1),
  last BIGINT NOT NULL
);
INSERT INTO revisions (id, last) VALUES (1, 0);
CREATE TABLE objects (
  id               BIGINT PRIMARY KEY,
  kind_id          BIGINT NOT NULL,
  cluster_id       BIGINT NOT NULL,
  namespace        TEXT COLLATE "C" NOT NULL,
  name             TEXT COLLATE "C" NOT NULL,
  uid              TEXT COLLATE "C" NOT NULL,
  resource_version TEXT COLLATE "C" NOT NULL,
  created_at       BIGINT NOT NULL,
  revision         BIGINT NOT NULL,
  listing          BIGINT NOT NULL,
  object           JSONB NOT NULL,
  labels           JSONB NOT NULL,
  UNIQUE (kind_id, cluster_id, namespace, name)
);
CREATE INDEX objects_order ON objects (kind_id, namespace, name, cluster_id);
CREATE INDEX objects_name ON objects (name, kind_id);
CREATE INDEX objects_created ON objects (kind_id, created_at);
CREATE INDEX objects_labels ON objects USING GIN (labels);
CREATE TABLE owners (
  owner_uid  TEXT COLLATE "C" NOT NULL,
  cluster_id BIGINT NOT NULL,
  object_id  BIGINT NOT NULL,
  PRIMARY KEY (owner_uid, cluster_id, object_id)
);
CREATE INDEX owners_object ON owners (object_id);
