//! Names for the moments around each message to and from a helper, at which tests kill a process:
//! `helper:<message>:before-send`, `after-send`, `after-receive`. `link` passes them.

use xioflow_killpoint as killpoint;
use xioflow_protocol::{Reply, Request};

/// Passes a moment of a message of ours.
pub(super) fn request(request: &Request, moment: &'static str) {
    let name = || match request {
        Request::Hello(_) => "hello",
        Request::Launch(_) => "launch",
        Request::Release => "release",
        Request::Discard => "discard",
        Request::Stop(_) => "stop",
        Request::Recorded => "recorded",
        Request::Suspend => "suspend",
        Request::Resume => "resume",
    };
    killpoint::pass(|| format!("helper:{}:{moment}", name()));
}

/// Passes the moment after a message of the helper was taken.
pub(super) fn reply(reply: &Reply) {
    let name = || match reply {
        Reply::Hello(_) => "hello",
        Reply::Spawned { .. } => "spawned",
        Reply::LaunchFailed(_) => "launch-failed",
        Reply::Running => "running",
        Reply::RootExited { .. } => "root-exited",
        Reply::Survivors { .. } => "survivors",
        Reply::Signalled { .. } => "signalled",
        Reply::TreeEmpty(_) => "tree-empty",
        Reply::TreeRemains(_) => "tree-remains",
        Reply::Refused(_) => "refused",
        Reply::Armour(_) => "armour",
        Reply::Panicked { .. } => "panicked",
    };
    killpoint::pass(|| format!("helper:{}:after-receive", name()));
}
