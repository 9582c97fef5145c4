CREATE INDEX objects_fields ON objects USING GIN (object jsonb_path_ops);
DO $$ BEGIN CREATE EXTENSION IF NOT EXISTS pg_trgm; CREATE INDEX objects_name_part ON objects USING GIN (name gin_trgm_ops); EXCEPTION WHEN OTHERS THEN NULL; END $$;
