CREATE TABLE rights (
  id         INTEGER PRIMARY KEY CHECK (id = 1),
  generation INTEGER NOT NULL
);
INSERT INTO rights (id, generation) VALUES (1, 1);
CREATE TABLE cluster_rights (
  cluster_id INTEGER PRIMARY KEY,
  policy     TEXT NOT NULL
);
CREATE TABLE stream_rights (
  stream_id  INTEGER PRIMARY KEY,
  generation INTEGER NOT NULL
);
