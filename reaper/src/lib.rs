//! The helper: holds one process tree and proves when it is empty.
