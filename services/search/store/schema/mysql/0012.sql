-- To find those that are gone without a look at all others.
SET @index = IF(EXISTS (SELECT 1 FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'namespaces' AND index_name = 'namespaces_gone'),
  'DO 0', 'ALTER TABLE namespaces DROP KEY namespaces_since, ADD KEY namespaces_gone (uid, since)');
PREPARE change_index FROM @index;
EXECUTE change_index;
DEALLOCATE PREPARE change_index;
