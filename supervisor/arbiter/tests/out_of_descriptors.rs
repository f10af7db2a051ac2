//! An arbiter without a free descriptor waits for one and does not spin. It has a process of its own: the limit
//! is the whole process's.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[expect(dead_code, reason = "this test needs little of it")]
#[path = "arbiter/common.rs"]
mod common;

use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use common::{Arbiter, Client};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use xioflow_kit::Stage;

/// What this process has used of the processor.
fn used() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(used).unwrap()
}

#[test]
fn who_cannot_be_accepted_is_served_once_a_descriptor_is_given_back() {
    let limit = Some(128);
    let files = Rlimit {
        current: limit,
        maximum: limit,
    };
    let stage = Stage::new();
    setrlimit(Resource::Nofile, files).unwrap();
    let arbiter = Arbiter::start(&stage);
    let (mut witness, other) = (arbiter.client(), arbiter.client());
    let mut hoard = Vec::new();
    while let Ok(descriptor) = rustix::io::fcntl_dupfd_cloexec(&witness.stream, 0) {
        hoard.push(descriptor);
    }
    // One is left for the client's end, and none for the arbiter's.
    hoard.pop();
    let waiting = UnixStream::connect(arbiter.socket()).unwrap();
    assert_eq!(witness.call("domain.status", json!({}))["connections"], 2);
    waiting
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let before = used();
    let nothing = (&waiting).read(&mut [0]).unwrap_err();
    assert!(matches!(
        nothing.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut
    ));
    let spent = used() - before;
    assert!(
        spent < Duration::from_millis(250),
        "{spent:?} of the processor for nothing"
    );

    drop((hoard, other));
    let mut served = Client::over(waiting);
    served.greet();
    assert_eq!(served.call("domain.status", json!({}))["connections"], 2);
}
