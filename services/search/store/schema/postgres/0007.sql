ALTER TABLE streams ADD COLUMN objects BIGINT NOT NULL DEFAULT 0;
ALTER TABLE streams ADD COLUMN counted BIGINT NOT NULL DEFAULT -1;
DO $$ BEGIN ALTER TABLE objects ALTER COLUMN object SET COMPRESSION lz4; ALTER TABLE versions ALTER COLUMN object SET COMPRESSION lz4; EXCEPTION WHEN OTHERS THEN NULL; END $$;
CREATE FUNCTION label_terms(kind BIGINT, labels JSONB) RETURNS TEXT[] LANGUAGE SQL IMMUTABLE STRICT PARALLEL SAFE AS
  $$ SELECT array_agg(kind || ' ' || key) || array_agg(kind || ' ' || key || '=' || value) FROM jsonb_each_text(labels) $$;
CREATE INDEX objects_label_terms ON objects USING GIN (label_terms(kind_id, labels));
DROP INDEX objects_labels;
