-- Version 2: output that is stored in part says which part is missing, and how many lines it had.
--
-- `artifact` holds the bytes before the gap and `content` those after it; without a file `content`
-- holds both. All three columns are null in rows of version 1: all of their output is stored, and
-- nobody has counted its lines.

ALTER TABLE operation_outputs ADD COLUMN lines INTEGER CHECK (lines >= 0);

ALTER TABLE operation_outputs ADD COLUMN gap_from INTEGER CHECK (gap_from >= 0);

ALTER TABLE operation_outputs ADD COLUMN gap_to INTEGER
    CHECK ((gap_to IS NULL) = (gap_from IS NULL) AND gap_from < gap_to AND gap_to <= total_bytes);
