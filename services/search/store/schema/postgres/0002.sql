CREATE TABLE documents (
  digest   TEXT COLLATE "C" PRIMARY KEY,
  document BYTEA NOT NULL
);
CREATE TABLE openapi (
  cluster_id BIGINT NOT NULL,
  path       TEXT COLLATE "C" NOT NULL,
  version    TEXT COLLATE "C" NOT NULL,
  digest     TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (path, cluster_id)
);
CREATE INDEX openapi_cluster ON openapi (cluster_id);
CREATE INDEX openapi_digest ON openapi (digest);
CREATE TABLE events (
  cluster_id         BIGINT NOT NULL,
  uid                TEXT COLLATE "C" NOT NULL,
  involved_kind      TEXT COLLATE "C" NOT NULL,
  involved_namespace TEXT COLLATE "C" NOT NULL,
  involved_name      TEXT COLLATE "C" NOT NULL,
  involved_uid       TEXT COLLATE "C" NOT NULL,
  seen_at            BIGINT NOT NULL,
  event              TEXT NOT NULL,
  PRIMARY KEY (cluster_id, uid)
);
CREATE INDEX events_involved ON events (cluster_id, involved_kind, involved_namespace, involved_name);
CREATE INDEX events_seen ON events (seen_at);
