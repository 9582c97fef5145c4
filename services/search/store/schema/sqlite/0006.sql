-- Only PostgreSQL gets indexes here.
SELECT 1;
