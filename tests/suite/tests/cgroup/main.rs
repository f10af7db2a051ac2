//! Operations in control groups of their own, in a place that was delegated for the test.

mod driver;
mod place;
