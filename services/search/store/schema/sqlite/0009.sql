-- Only PostgreSQL has such indexes.
SELECT 1;
