CREATE TABLE changes (
  revision     BIGINT PRIMARY KEY,
  previous     BIGINT NOT NULL,
  deleted      BOOLEAN NOT NULL,
  object_id    BIGINT NOT NULL,
  kind_id      BIGINT NOT NULL,
  cluster      TEXT COLLATE "C" NOT NULL,
  namespace    TEXT COLLATE "C" NOT NULL,
  name         TEXT COLLATE "C" NOT NULL,
  committed_at BIGINT NOT NULL
);
CREATE TABLE versions (
  revision BIGINT PRIMARY KEY,
  object   JSONB NOT NULL
);
CREATE TABLE history (
  id        INTEGER PRIMARY KEY CHECK (id = 1),
  pruned    BIGINT NOT NULL,
  pruned_at BIGINT NOT NULL
);
INSERT INTO history (id, pruned, pruned_at) SELECT 1, last, CAST(EXTRACT(EPOCH FROM now()) * 1000 AS BIGINT) FROM revisions;
UPDATE objects SET resource_version = '';
UPDATE streams SET resource_version = '';
