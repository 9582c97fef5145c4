-- Only PostgreSQL gets indexes here.
DO 0;
