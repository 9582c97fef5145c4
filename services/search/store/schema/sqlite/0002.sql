CREATE TABLE documents (
  digest   TEXT PRIMARY KEY,
  document BLOB NOT NULL
);
CREATE TABLE openapi (
  cluster_id INTEGER NOT NULL,
  path       TEXT NOT NULL,
  version    TEXT NOT NULL,
  digest     TEXT NOT NULL,
  PRIMARY KEY (path, cluster_id)
) WITHOUT ROWID;
CREATE INDEX openapi_cluster ON openapi (cluster_id);
CREATE INDEX openapi_digest ON openapi (digest);
CREATE TABLE events (
  cluster_id         INTEGER NOT NULL,
  uid                TEXT NOT NULL,
  involved_kind      TEXT NOT NULL,
  involved_namespace TEXT NOT NULL,
  involved_name      TEXT NOT NULL,
  involved_uid       TEXT NOT NULL,
  seen_at            INTEGER NOT NULL,
  event              TEXT NOT NULL,
  PRIMARY KEY (cluster_id, uid)
) WITHOUT ROWID;
CREATE INDEX events_involved ON events (cluster_id, involved_kind, involved_namespace, involved_name);
CREATE INDEX events_seen ON events (seen_at);
