//! The processes of the root are moved for controllers only, and whoever caused that is told. A hybrid host hands no
//! controllers on; a virtual machine does.

use std::fs;

use rustix::process::Signal;
use xioflow_kernel::journal::{Query, Reader};
use xioflow_kit::{Delegated, Finished, delegated, each_user};

const MOVED: &str = "moved to the control group";

fn run(place: &Delegated<'_>, options: &[&str]) -> Finished {
    let run = place.xioflow().args(["run", "--no-arbiter"]).args(options);
    run.args(["--", "true"]).finish()
}

#[test]
fn without_limits_nobody_is_moved() {
    each_user(|stage| {
        let Some(place) = Delegated::or_skip(stage) else {
            return;
        };
        run(&place, &["--driver", "cgroup"])
            .assert_code(0)
            .assert_stderr("");
        assert!(!place.directory().join("xioflow-host").exists());
    });
}

#[test]
fn the_first_limit_moves_the_host_says_so_once_and_journals_it() {
    each_user(|stage| {
        let Some(place) = Delegated::or_skip(stage) else {
            return;
        };
        if !place.has_or_skip(&["pids"]) {
            return;
        }
        // Somebody who stays in the root until he is moved.
        let bystander = place.run("/bin/sleep").arg("300").start();
        run(&place, &["--pids", "64"])
            .assert_code(0)
            .assert_complains(MOVED);
        let host = place.directory().join("xioflow-host");
        assert_eq!(delegated::processes(&host), [bystander.pid()]);
        let own = fs::read_to_string(place.directory().join("cgroup.procs")).expect("readable");
        assert_eq!(own, "");
        bystander.signal(Signal::KILL);
        drop(bystander.finish());
        let reader = Reader::open(stage.domain()).expect("a journal");
        let events = reader.events(0, None, None).expect("events");
        let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
        let at = |kind| kinds.iter().position(|it| *it == kind);
        assert!(at("HOST_MOVING").is_some(), "{kinds:?}");
        assert!(at("HOST_MOVING") < at("HOST_MOVED"), "{kinds:?}");
    });
}
