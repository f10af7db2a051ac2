//! Operations in control groups of their own, in a place that was delegated for the test.

mod crash;
mod doctor;
mod driver;
mod host;
mod limits;
mod place;
