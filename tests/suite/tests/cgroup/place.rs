//! The place itself, on which every other test here stands: who runs in it, and that nothing of it is left.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use xioflow_kit::{Deadline, Delegated, Stage, delegated, each_user, wait};

#[test]
fn a_run_is_in_the_delegated_place_as_the_stages_user() {
    each_user(|stage| {
        let Some(place) = Delegated::or_skip(stage) else {
            return;
        };
        let ready = stage.path("ready");
        let mut run = place
            .run("/bin/sh")
            .args(["-c", "id -u; echo $$ >ready; mkdir \"$0/inner\"; read _"])
            .arg(place.directory())
            .stdin("")
            .start();
        let user = run.wait_for_line();
        let expected = stage.user_id().unwrap_or_else(own_user);
        assert_eq!(user, expected.to_string());
        wait::file(&ready, Deadline::usual());
        let pid = run.pid();
        run.finish();
        assert_eq!(
            fs::read_to_string(&ready).expect("readable").trim(),
            pid.to_string()
        );
        assert!(
            place.directory().join("inner").is_dir(),
            "its user may make groups"
        );
        assert!(delegated::is_empty(place.directory(), Deadline::usual()));
    });
}

fn own_user() -> u32 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").expect("/proc is mounted").uid()
}

#[test]
fn what_a_failed_test_leaves_in_its_place_is_ended_and_removed() {
    let mut directory = None;
    let failed = catch_unwind(AssertUnwindSafe(|| {
        let stage = Stage::new();
        let Some(place) = Delegated::or_skip(&stage) else {
            return;
        };
        directory = Some(place.directory().to_owned());
        leave_a_process_in_a_leaf(&stage, &place);
        panic!("on purpose");
    }));
    let Some(directory) = directory else {
        return;
    };
    assert!(failed.is_err());
    assert!(!directory.exists(), "{} is left", directory.display());
}

#[test]
fn a_leaf_that_is_left_is_found_fault_with() {
    let mut directory = None;
    let failed = catch_unwind(AssertUnwindSafe(|| {
        let stage = Stage::new();
        let Some(place) = Delegated::or_skip(&stage) else {
            return;
        };
        directory = Some(place.directory().to_owned());
        make_leaf(place.directory());
    }));
    let Some(directory) = directory else {
        return;
    };
    let complaint = failed.expect_err("the leaf was not noticed");
    let complaint = complaint.downcast_ref::<String>().expect("a message");
    assert!(complaint.contains("left behind: group "), "{complaint}");
    assert!(!directory.exists(), "{} is left", directory.display());
}

fn make_leaf(directory: &Path) -> std::path::PathBuf {
    let leaf = directory
        .join("xioflow-0123456789abcdef")
        .join("0".repeat(32));
    fs::create_dir_all(&leaf).expect("a group may be made");
    leaf
}

/// One that nothing but its group tells: another environment, another folder.
fn leave_a_process_in_a_leaf(stage: &Stage, place: &Delegated<'_>) {
    let leaf = make_leaf(place.directory());
    let run = place
        .run("/bin/sh")
        .args([
            "-c",
            "echo 0 >\"$0/cgroup.procs\"; cd /; exec env -i setsid -f sleep 120 >&- 2>&-",
        ])
        .arg(&leaf);
    run.finish().assert_code(0);
    let members = delegated::processes(&leaf);
    assert_eq!(
        members.len(),
        1,
        "{members:?} in {}",
        stage.root().display()
    );
}
