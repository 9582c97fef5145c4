-- Only PostgreSQL has such indexes.
DO 0;
