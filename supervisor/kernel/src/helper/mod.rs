//! The helpers of this supervisor: where their program is, how one is started, how one is spoken
//! to, and the few that wait for work. What is said over the link is `xioflow-protocol`'s.

mod bounds;
mod link;
mod locate;
mod patience;
mod points;
mod pool;
mod registry;

pub use link::{HelperLost, LinkError};
pub use locate::{HELPER_PROGRAM, HELPER_VARIABLE, LocateError, find_helper};
pub use patience::HelperPatience;

pub(crate) use bounds::check_word;
pub(crate) use link::{HelperLink, Received};
pub(crate) use pool::Helpers;
pub(crate) use registry::{forget_init, is_init, note_init, strangers};
