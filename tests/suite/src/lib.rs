//! The whole system driven from outside; see `tests/`.
