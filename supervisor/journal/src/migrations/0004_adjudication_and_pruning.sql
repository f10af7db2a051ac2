-- Version 4: what was decided about operations whose end could not be proven, which stored output was
-- given up to make room, and which file the owner wrote to, so that a copy of a domain is noticed.

ALTER TABLE operations ADD COLUMN adjudication_json TEXT
    CHECK (adjudication_json IS NULL OR outcome IS 'indeterminate');

CREATE INDEX operations_unadjudicated ON operations (run_id)
    WHERE outcome = 'indeterminate' AND adjudication_json IS NULL;

ALTER TABLE operation_outputs ADD COLUMN pruned_at_ms INTEGER
    CHECK (pruned_at_ms IS NULL OR artifact IS NOT NULL);

-- 1 while a file of the operation is kept; else null. Only such operations are in the index, in the
-- order of their results, so that looking for the oldest file never passes what is gone.
ALTER TABLE operations ADD COLUMN has_files INTEGER CHECK (has_files = 1);

UPDATE operations SET has_files = 1 WHERE id IN
    (SELECT operation_id FROM operation_outputs WHERE artifact IS NOT NULL);

CREATE INDEX operations_with_files ON operations (finished_at_ms) WHERE has_files = 1;

-- The database's file as the owner saw it: device, inode and, where the file system keeps one, the time
-- at which the inode came into being. A copy has others. Null in rows of earlier versions.
ALTER TABLE owners ADD COLUMN file_device INTEGER;

ALTER TABLE owners ADD COLUMN file_inode INTEGER;

ALTER TABLE owners ADD COLUMN file_born_ns INTEGER;

-- Operations up to this ordinal were recorded in another file, of which this one is a copy...
ALTER TABLE owners ADD COLUMN copied_through INTEGER;

-- ... or in this very inode, as far as that can be told, on a device that had another number then.
ALTER TABLE owners ADD COLUMN renumbered_through INTEGER;
