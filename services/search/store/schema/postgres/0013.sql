-- Where query.Words looks in an object itself, in lower case, a text in each line, and of all kinds the images of what may have pods. Words have no line breaks. As a generated
-- column, replicas of earlier versions write it, too.
CREATE FUNCTION word_text(namespace TEXT, name TEXT, labels JSONB, object JSONB) RETURNS TEXT LANGUAGE SQL IMMUTABLE PARALLEL SAFE AS
  $$ SELECT lower(concat_ws(E'\n', namespace, name, (SELECT string_agg(key || E'\n' || value, E'\n') FROM jsonb_each_text(labels)),
    (SELECT string_agg(image #>> '{}', E'\n') FROM jsonb_path_query(jsonb_build_array(
      object #> '{spec,containers}', object #> '{spec,initContainers}', object #> '{spec,ephemeralContainers}',
      object #> '{spec,template,spec,containers}', object #> '{spec,template,spec,initContainers}', object #> '{spec,template,spec,ephemeralContainers}',
      object #> '{spec,jobTemplate,spec,template,spec,containers}', object #> '{spec,jobTemplate,spec,template,spec,initContainers}',
      object #> '{spec,jobTemplate,spec,template,spec,ephemeralContainers}'), 'lax $[*][*].image') image
    WHERE jsonb_typeof(image) NOT IN ('object', 'array'))) COLLATE "C") $$;
ALTER TABLE objects ADD COLUMN words TEXT COLLATE "C" GENERATED ALWAYS AS (word_text(namespace, name, labels, object)) STORED;
DO $$ BEGIN CREATE INDEX objects_words ON objects USING GIN (words gin_trgm_ops) WITH (gin_pending_list_limit = 512); EXCEPTION WHEN OTHERS THEN NULL; END $$;
