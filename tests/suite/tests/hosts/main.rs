//! Hosts that lack something: a kernel without a feature, a `/proc` that hides or is not there, a container.
//! What xioflow does there, and that it says so. What each may lack is in `docs/holder.md`.

mod absent;
mod container;
mod descriptors;
mod hidden;
mod lacking;
mod world;
