CREATE TABLE clusters (
  id   INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
);
CREATE TABLE kinds (
  id         INTEGER PRIMARY KEY,
  api_group  TEXT NOT NULL,
  version    TEXT NOT NULL,
  resource   TEXT NOT NULL,
  kind       TEXT NOT NULL,
  namespaced INTEGER NOT NULL,
  UNIQUE (api_group, version, resource)
);
CREATE TABLE streams (
  id               INTEGER PRIMARY KEY,
  cluster_id       INTEGER NOT NULL,
  kind_id          INTEGER NOT NULL,
  epoch            INTEGER NOT NULL,
  resource_version TEXT NOT NULL,
  listed           INTEGER NOT NULL,
  heard_at         INTEGER NOT NULL,
  opened_at        INTEGER NOT NULL,
  details          TEXT NOT NULL,
  UNIQUE (cluster_id, kind_id)
);
CREATE INDEX streams_kind ON streams (kind_id);
CREATE TABLE revisions (
  id   INTEGER PRIMARY KEY CHECK (id = 1),
  last INTEGER NOT NULL
);
INSERT INTO revisions (id, last) VALUES (1, 0);
CREATE TABLE objects (
  id               INTEGER PRIMARY KEY,
  kind_id          INTEGER NOT NULL,
  cluster_id       INTEGER NOT NULL,
  namespace        TEXT NOT NULL,
  name             TEXT NOT NULL,
  uid              TEXT NOT NULL,
  resource_version TEXT NOT NULL,
  created_at       INTEGER NOT NULL,
  revision         INTEGER NOT NULL,
  listing          INTEGER NOT NULL,
  object           TEXT NOT NULL,
  UNIQUE (kind_id, cluster_id, namespace, name)
);
CREATE INDEX objects_order ON objects (kind_id, namespace, name, cluster_id);
CREATE INDEX objects_name ON objects (name, kind_id);
CREATE INDEX objects_created ON objects (kind_id, created_at);
CREATE TABLE owners (
  owner_uid  TEXT NOT NULL,
  cluster_id INTEGER NOT NULL,
  object_id  INTEGER NOT NULL,
  PRIMARY KEY (owner_uid, cluster_id, object_id)
) WITHOUT ROWID;
CREATE INDEX owners_object ON owners (object_id);
CREATE TABLE labels (
  label     TEXT NOT NULL,
  value     TEXT NOT NULL,
  kind_id   INTEGER NOT NULL,
  object_id INTEGER NOT NULL,
  PRIMARY KEY (label, value, kind_id, object_id)
) WITHOUT ROWID;
CREATE INDEX labels_object ON labels (object_id, label, value);
