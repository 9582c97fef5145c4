-- Each cluster has a generation of its own. Replicas of earlier versions raise none, so without the tables that they use they neither copy RBAC objects nor
-- show anything by them.
DROP TABLE rights;
DROP TABLE stream_rights;
CREATE TABLE rights_changes (
  id      INTEGER PRIMARY KEY CHECK (id = 1),
  changed BIGINT NOT NULL,
  removed BIGINT NOT NULL
);
INSERT INTO rights_changes (id, changed, removed) SELECT 1, last, last FROM revisions;
ALTER TABLE cluster_rights ADD COLUMN generation BIGINT NOT NULL DEFAULT 0;
UPDATE cluster_rights SET generation = (SELECT last FROM revisions WHERE id = 1);
CREATE TABLE unreadable_rights (
  stream_id BIGINT NOT NULL,
  namespace TEXT NOT NULL,
  name      TEXT NOT NULL,
  reason    TEXT NOT NULL,
  listing   BIGINT NOT NULL,
  PRIMARY KEY (stream_id, namespace, name)
);
ALTER TABLE clusters ADD COLUMN uid TEXT NOT NULL DEFAULT '';
ALTER TABLE clusters ADD COLUMN since BIGINT NOT NULL DEFAULT 0;
CREATE TABLE namespaces (
  cluster_id BIGINT NOT NULL,
  name       TEXT NOT NULL,
  uid        TEXT NOT NULL,
  since      BIGINT NOT NULL,
  PRIMARY KEY (cluster_id, name)
);
CREATE INDEX namespaces_since ON namespaces (since);
INSERT INTO namespaces (cluster_id, name, uid, since)
SELECT o.cluster_id, o.name, o.uid, r.last FROM objects o JOIN kinds k ON k.id = o.kind_id JOIN revisions r ON r.id = 1
WHERE k.api_group = '' AND k.version = 'v1' AND k.resource = 'namespaces';
