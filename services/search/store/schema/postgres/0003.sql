CREATE TABLE replicas (
  name TEXT COLLATE "C" PRIMARY KEY,
  beat BIGINT NOT NULL
);
CREATE TABLE stream_states (
  stream_id BIGINT PRIMARY KEY,
  state     TEXT NOT NULL
);
