//! The whole system driven from outside; everything is in `tests/`, one program per area.
//!
//! `holder` speaks frames to the real helper, `command` runs the real command line. Both stand on
//! `xioflow-kit` and use nothing else of the project, so they hold for any build of it.
