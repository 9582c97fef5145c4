-- To find those that are gone without a look at all others.
DROP INDEX namespaces_since;
CREATE INDEX namespaces_gone ON namespaces (uid, since);
