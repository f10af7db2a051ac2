//! The whole system driven from outside; everything is in `tests/`, one program per area.
//!
//! `holder` speaks frames to the real helper, `command` runs the real command line, `embedded`
//! uses the library as a host does, `helpers` gives it helpers that fail in every way, and
//! `descriptors` counts what a host is left with.
