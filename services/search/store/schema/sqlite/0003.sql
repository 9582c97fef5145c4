CREATE TABLE replicas (
  name TEXT PRIMARY KEY,
  beat INTEGER NOT NULL
);
CREATE TABLE stream_states (
  stream_id INTEGER PRIMARY KEY,
  state     TEXT NOT NULL
);
