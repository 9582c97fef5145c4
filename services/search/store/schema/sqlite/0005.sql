CREATE TABLE changes (
  revision     INTEGER PRIMARY KEY,
  previous     INTEGER NOT NULL,
  deleted      INTEGER NOT NULL,
  object_id    INTEGER NOT NULL,
  kind_id      INTEGER NOT NULL,
  cluster      TEXT NOT NULL,
  namespace    TEXT NOT NULL,
  name         TEXT NOT NULL,
  committed_at INTEGER NOT NULL
);
CREATE TABLE versions (
  revision INTEGER PRIMARY KEY,
  object   TEXT NOT NULL
);
CREATE TABLE history (
  id        INTEGER PRIMARY KEY CHECK (id = 1),
  pruned    INTEGER NOT NULL,
  pruned_at INTEGER NOT NULL
);
INSERT INTO history (id, pruned, pruned_at) SELECT 1, last, CAST(strftime('%s', 'now') AS INTEGER) * 1000 FROM revisions;
UPDATE objects SET resource_version = '';
UPDATE streams SET resource_version = '';
