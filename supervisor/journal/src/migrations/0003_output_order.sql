-- Version 3: in which order a command's two output streams were read, as the kernel wrote it. Null
-- where only one was used, and in rows of earlier versions.

ALTER TABLE operations ADD COLUMN output_order BLOB;
