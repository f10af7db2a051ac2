//! The supervised execution kernel: domains, operations, output, recovery.
