//! A tree in a control group of its own: made there, ended by one write, and over only when the group is empty as well.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use xioflow_kit::{Deadline, Delegated, Holder, Order, Stage, delegated, each_user, wait};
use xioflow_protocol::{
    Containment, Exit, FEATURE_CONTROL_GROUP, GroupEntry, Reply, Request, ResourceLimit,
    Stage as Step, StopPlan, TreeEnd,
};

use crate::{
    assert_all_gone, pids_of, plan, root_exit, rung, signal, signals, until_empty, until_failure,
    until_survivors,
};

/// A delegated place and a leaf in it, both the stage's user's.
///
/// A leaf is good for one tree: the system counts how often a group was killed, and takes whoever is made in one that was for
/// somebody who was meant.
struct Place<'a> {
    root: Delegated<'a>,
    leaf: PathBuf,
}

impl<'a> Place<'a> {
    fn or_skip(stage: &'a Stage) -> Option<Self> {
        let root = Delegated::or_skip(stage)?;
        let leaf = Self::make(&root, stage);
        Some(Self { root, leaf })
    }

    fn renew(&mut self, stage: &Stage) {
        fs::remove_dir(&self.leaf).expect("nobody is in it");
        self.leaf = Self::make(&self.root, stage);
    }

    fn make(root: &Delegated<'_>, stage: &Stage) -> PathBuf {
        let leaf = root.directory().join("leaf");
        fs::create_dir(&leaf).expect("a group below a delegated one");
        if let Some(id) = stage.user_id() {
            let files = fs::read_dir(&leaf)
                .expect("a folder")
                .map(|it| it.expect("a file").path());
            for path in files.chain([leaf.clone()]) {
                chown(path, Some(id), Some(id)).expect("handed over");
            }
        }
        leaf
    }

    /// Nobody may be moved into a group from outside of the delegated place, so the helper stands in it.
    fn take_in(&self, pid: u32) {
        put(self.root.directory(), pid);
    }

    fn helper(&self, stage: &'a Stage) -> Holder<'a> {
        let holder = Holder::start(stage);
        self.take_in(holder.pid());
        holder
    }

    /// The helper of test builds, on a system without these features.
    fn lacking_helper(&self, stage: &'a Stage, without: &str) -> Holder<'a> {
        let variable = format!("XIOFLOW_TEST_WITHOUT={without}");
        let lacking = stage.program("xioflow-lacking-helper");
        let script = format!("exec {}", lacking.display());
        let words = ["/usr/bin/env", &variable, "/bin/sh", "-c", &script];
        let holder = Holder::start_through(stage, &words);
        self.take_in(holder.pid());
        holder
    }

    /// Somebody who is in the leaf and was made by nobody of the tree.
    fn guest(&self, stage: &Stage) -> Child {
        let mut sleep = Command::new("/bin/sleep");
        sleep.arg("600");
        if let Some(id) = stage.user_id() {
            sleep.uid(id).gid(id);
        }
        let guest = sleep.spawn().expect("it starts");
        stage.watch(&[guest.id()]);
        put(&self.leaf, guest.id());
        guest
    }

    fn members(&self) -> Vec<u32> {
        delegated::processes(&self.leaf)
    }

    fn assert_empty(&self) {
        assert!(delegated::is_empty(
            &self.leaf,
            Deadline::after(std::time::Duration::ZERO)
        ));
    }
}

fn put(group: &Path, pid: u32) {
    fs::write(group.join("cgroup.procs"), pid.to_string()).expect("moved");
}

fn each_place(test: impl Fn(&Stage, &mut Place<'_>)) {
    each_user(|stage| {
        if let Some(mut place) = Place::or_skip(stage) {
            test(stage, &mut place);
        }
    });
}

fn entry(holder: &mut Holder<'_>, order: &Order) -> (u32, Option<GroupEntry>) {
    let hello = holder.greet();
    assert!(hello.features.iter().any(|it| it == FEATURE_CONTROL_GROUP));
    holder.send_launch(order);
    match holder.reply() {
        Reply::Spawned { root, group, .. } => (root.pid, group),
        other => panic!("no command at its gate: {other:?}"),
    }
}

fn tree(stage: &Stage, words: &[&str]) -> (Order, PathBuf) {
    let ready = stage.path("ready");
    let common = ["--ready", ready.to_str().expect("an ASCII path")];
    (Order::fixture(stage, &[&common, words].concat()), ready)
}

fn kill(holder: &mut Holder<'_>) -> (Vec<Reply>, TreeEnd) {
    holder.send(&Request::Stop(StopPlan::kill(10_000)));
    until_empty(holder)
}

#[test]
fn a_command_is_made_in_its_group_and_everyone_after_it() {
    each_place(|stage, place| {
        let (order, ready) = tree(stage, &["spawn-tree", "mixed", "20"]);
        let mut holder = place.helper(stage);
        let (root, group) = entry(&mut holder, &order.in_group(&place.leaf));
        assert_eq!(group, Some(GroupEntry::Cloned));
        assert_eq!(place.members(), [root], "at its gate it is there");
        holder.send(&Request::Release);
        let pids = stage.wait_ready(&ready);
        let members = place.members();
        assert!(
            pids.iter().all(|pid| members.contains(pid)),
            "{pids:?} in {members:?}"
        );
        assert!(!members.contains(&holder.pid()));
        let (replies, end) = kill(&mut holder);
        assert_eq!(signals(&replies), [signal::KILL]);
        assert_eq!(end.group_empty, Some(true));
        assert_all_gone(&pids);
        place.assert_empty();
    });
}

#[test]
fn on_an_older_kernel_it_is_moved_before_it_comes_to_its_gate() {
    each_place(|stage, place| {
        for without in ["clone-into", "pidfd"] {
            let order = Order::shell(stage, "exit 3").in_group(&place.leaf);
            let mut holder = place.lacking_helper(stage, without);
            let (root, group) = entry(&mut holder, &order);
            assert_eq!(group, Some(GroupEntry::Moved), "without {without}");
            assert_eq!(place.members(), [root]);
            holder.send(&Request::Release);
            let (replies, end) = until_empty(&mut holder);
            assert_eq!(root_exit(&replies), Exit::Exited { code: 3 });
            assert_eq!(end.group_empty, Some(true));
        }
    });
}

/// The system takes whoever is made in a group from one that was ever ended as a whole for one of those who were meant.
#[test]
fn from_a_group_that_was_ended_before_nobody_can_be_made_in_another() {
    each_place(|stage, place| {
        let order = Order::shell(stage, "exit 0").in_group(&place.leaf);
        fs::write(place.root.directory().join("cgroup.kill"), "1").expect("nobody is in it");
        let mut holder = place.helper(stage);
        holder.launch(&order);
        match holder.reply() {
            Reply::Spawned { .. } => {}
            Reply::LaunchFailed(failure) => {
                let subject = String::from_utf8_lossy(&failure.subject);
                assert_eq!(failure.stage, Step::Group, "{failure:?}");
                assert!(subject.contains("cgroup.kill"), "{subject}");
            }
            other => panic!("neither: {other:?}"),
        }
    });
}

#[test]
fn without_a_group_nothing_is_said_of_one() {
    let stage = Stage::new();
    let order = Order::shell(&stage, "exit 0");
    let mut holder = Holder::start(&stage);
    assert_eq!(entry(&mut holder, &order).1, None);
    holder.send(&Request::Release);
    assert_eq!(until_empty(&mut holder).1.group_empty, None);
}

/// Whoever was moved into the group descends from nobody of the tree, and keeps it from being over.
#[test]
fn a_guest_outlives_the_command_is_named_and_ended() {
    each_place(|stage, place| {
        for without in ["", "group-kill"] {
            let order = Order::shell(stage, "read line; exit 4");
            let (reader, writer) = std::io::pipe().expect("a pipe");
            let mut order = order.in_group(&place.leaf);
            order.descriptors[0] = reader.into();
            let mut holder = match without {
                "" => place.helper(stage),
                missing => place.lacking_helper(stage, missing),
            };
            let _entered = entry(&mut holder, &order);
            holder.send(&Request::Release);
            let mut guest = place.guest(stage);
            drop(writer);
            until_survivors(&mut holder);
            let (_, end) = until_empty(&mut holder);
            assert_eq!(pids_of(&end.survivors), [guest.id()], "without {without:?}");
            assert_eq!((end.group_empty, end.survivors_total), (Some(true), 1));
            assert_eq!(end.exit, Some(Exit::Exited { code: 4 }));
            let ended = guest.wait().expect("our child");
            assert!(!ended.success());
            place.renew(stage);
        }
    });
}

#[test]
fn a_member_that_has_moved_itself_out_is_ended_as_one_of_the_tree() {
    each_place(|stage, place| {
        let (moved, outside) = (
            stage.path("moved"),
            place.root.directory().join("cgroup.procs"),
        );
        let script = format!(
            "setsid sh -c 'echo $$ >{}; echo $$ >{moved}.new; mv {moved}.new {moved}; exec sleep 600' & wait",
            outside.display(),
            moved = moved.display(),
        );
        let mut holder = place.helper(stage);
        let _entered = entry(
            &mut holder,
            &Order::shell(stage, &script).in_group(&place.leaf),
        );
        holder.send(&Request::Release);
        wait::file(&moved, Deadline::usual());
        let pid = xioflow_kit::fixture_pids(&moved)[0];
        assert!(!place.members().contains(&pid), "it has left");
        let (_, end) = kill(&mut holder);
        assert_eq!(end.group_empty, Some(true));
        assert_all_gone(&[pid]);
    });
}

/// Whoever stands still heeds nothing but SIGKILL.
#[test]
fn a_frozen_group_runs_again_for_the_polite_part() {
    each_place(|stage, place| {
        let ready = stage.path("ready");
        let script = format!(
            "trap 'exit 7' TERM; : >{}; while :; do sleep 600 & wait $!; done",
            ready.display()
        );
        let mut holder = place.helper(stage);
        let _entered = entry(
            &mut holder,
            &Order::shell(stage, &script).in_group(&place.leaf),
        );
        holder.send(&Request::Release);
        wait::file(&ready, Deadline::usual());
        fs::write(place.leaf.join("cgroup.freeze"), "1").expect("frozen");
        let polite = plan(&[rung(signal::TERM, 20_000)]);
        holder.send(&Request::Stop(polite));
        let (replies, _) = until_empty(&mut holder);
        assert_eq!(root_exit(&replies), Exit::Exited { code: 7 });
    });
}

#[test]
fn a_tree_that_freezes_itself_is_killed_all_the_same() {
    each_place(|stage, place| {
        let (inner, frozen) = (place.leaf.join("inner"), stage.path("frozen"));
        let script = format!(
            "mkdir {inner}; setsid sh -c 'echo $$ >{inner}/cgroup.procs; : >{frozen}; exec sleep 600' & \
             while [ ! -e {frozen} ]; do :; done; echo 1 >{inner}/cgroup.freeze; exec sleep 600",
            inner = inner.display(),
            frozen = frozen.display(),
        );
        let mut holder = place.helper(stage);
        let _entered = entry(
            &mut holder,
            &Order::shell(stage, &script).in_group(&place.leaf),
        );
        holder.send(&Request::Release);
        wait::until("the inner group stands still", Deadline::usual(), || {
            fs::read_to_string(inner.join("cgroup.events"))
                .is_ok_and(|it| it.contains("frozen 1") && it.contains("populated 1"))
        });
        let (_, end) = kill(&mut holder);
        assert_eq!(end.group_empty, Some(true));
        place.assert_empty();
        fs::remove_dir(&inner).expect("nobody is in it");
    });
}

#[test]
fn a_tree_that_kills_its_own_group_has_ended_by_a_signal() {
    each_place(|stage, place| {
        let script = format!(
            "sleep 600 & echo 1 >{}/cgroup.kill; sleep 600",
            place.leaf.display()
        );
        let mut holder = place.helper(stage);
        let _entered = entry(
            &mut holder,
            &Order::shell(stage, &script).in_group(&place.leaf),
        );
        holder.send(&Request::Release);
        let (replies, end) = until_empty(&mut holder);
        let (killed, core) = (signal::KILL, false);
        assert_eq!(
            root_exit(&replies),
            Exit::Signaled {
                signal: killed,
                core
            }
        );
        assert_eq!(
            (end.group_empty, end.last_signal),
            (Some(true), None),
            "by nobody of ours"
        );
    });
}

#[test]
fn it_goes_together_with_a_namespace() {
    each_place(|stage, place| {
        let (order, ready) = tree(stage, &["spawn-tree", "mixed", "10"]);
        let mut order = order.in_group(&place.leaf);
        order.launch.containment = Containment::PidNamespace;
        let mut holder = place.helper(stage);
        holder.greet();
        holder.send_launch(&order);
        let (root, namespace) = match holder.reply() {
            Reply::Spawned {
                root,
                namespace: Some(namespace),
                group: Some(GroupEntry::Cloned),
            } => (root.pid, namespace),
            Reply::LaunchFailed(failure) if failure.stage == Step::Namespace => {
                println!("skipped: no namespace can be made: {failure:?}");
                return;
            }
            other => panic!("neither here nor there: {other:?}"),
        };
        assert!(place.members().contains(&root));
        assert!(
            !place.members().contains(&namespace.init.pid),
            "the init is ours and not the tree's"
        );
        holder.send(&Request::Release);
        wait::file(&ready, Deadline::usual());
        let (_, end) = kill(&mut holder);
        assert_eq!(end.group_empty, Some(true));
        place.assert_empty();
    });
}

#[test]
fn what_is_no_group_or_not_ours_is_refused_by_name() {
    each_place(|stage, place| {
        let order = Order::shell(stage, "exit 0").in_group(&stage.path(""));
        let mut holder = place.helper(stage);
        holder.launch(&order);
        let failure = until_failure(&mut holder);
        assert_eq!(
            (failure.stage, &failure.subject[..]),
            (Step::Group, &b"cgroup.events"[..])
        );
    });
    let stage = Stage::new();
    if !stage.is_privileged() {
        return;
    }
    let Some(place) = Place::or_skip(&stage) else {
        return;
    };
    let stranger = Stage::ordinary();
    let order = Order::shell(&stranger, "exit 0").in_group(&place.leaf);
    let mut holder = place.helper(&stranger);
    holder.launch(&order);
    let failure = until_failure(&mut holder);
    assert_eq!(
        (failure.stage, failure.errno),
        (Step::Group, 13),
        "{failure:?}"
    );
}

/// Below a group that is threaded in a part of it, one that is not is of no use.
#[test]
fn a_group_that_takes_no_processes_is_refused() {
    each_place(|stage, place| {
        let [threaded, invalid] = ["threaded", "invalid"].map(|name| place.leaf.join(name));
        fs::create_dir(&threaded).expect("a group");
        fs::write(threaded.join("cgroup.type"), "threaded").expect("made threaded");
        fs::create_dir(&invalid).expect("a group");
        if let Some(id) = stage.user_id() {
            for file in fs::read_dir(&invalid).expect("a folder") {
                chown(file.expect("a file").path(), Some(id), Some(id)).expect("handed over");
            }
        }
        let order = Order::shell(stage, "exit 0").in_group(&invalid);
        let mut holder = place.helper(stage);
        holder.launch(&order);
        let failure = until_failure(&mut holder);
        assert_eq!(
            (failure.stage, &failure.subject[..]),
            (Step::Group, &b"clone3"[..]),
            "{failure:?}"
        );
        fs::remove_dir(&invalid).expect("nobody is in it");
        fs::remove_dir(&threaded).expect("nobody is in it");
    });
}

#[test]
fn the_last_word_says_that_the_group_is_empty() {
    each_place(|stage, place| {
        let (order, ready) = tree(stage, &["daemonise"]);
        let order = order.in_group(&place.leaf);
        let mut holder = place.helper(stage);
        let _entered = entry(&mut holder, &order);
        holder.send(&Request::Release);
        let pids = stage.wait_ready(&ready);
        holder.hang_up();
        let word = order.last_word();
        assert!(word.empty, "{word:?}");
        assert_eq!(word.end.group_empty, Some(true));
        assert_all_gone(&pids);
        place.assert_empty();
        holder.wait();
    });
}

/// The kernel's own SIGKILL asks for no permission: without a group an ordinary helper could only name it.
#[test]
fn a_member_that_became_another_user_is_ended_by_an_ordinary_helper() {
    let stage = Stage::ordinary();
    if stage.user_id().is_none() {
        println!("skipped: needs root, to make a set-user-ID program");
        return;
    }
    let Some(place) = Place::or_skip(&stage) else {
        return;
    };
    let become_root = stage.path("become-root");
    fs::copy("/usr/bin/setpriv", &become_root).expect("setpriv of util-linux");
    fs::set_permissions(&become_root, fs::Permissions::from_mode(0o4755)).expect("chmod");
    let told = stage.path("told");
    let script = format!(
        "{} --reuid=0 --regid=0 --clear-groups /bin/sh -c 'echo $$ >{told}.new; mv {told}.new {told}; exec sleep 600' & wait",
        become_root.display(),
        told = told.display(),
    );
    let mut order = Order::shell(&stage, &script).in_group(&place.leaf);
    order.launch.no_new_privs = false;
    let mut holder = place.helper(&stage);
    let _entered = entry(&mut holder, &order);
    holder.send(&Request::Release);
    wait::file(&told, Deadline::usual());
    let pid = xioflow_kit::fixture_pids(&told)[0];
    let owner = fs::metadata(format!("/proc/{pid}"))
        .expect("it lives")
        .uid();
    assert_eq!(owner, 0, "it is root's");
    let (_, end) = kill(&mut holder);
    assert_eq!(end.group_empty, Some(true));
    assert_all_gone(&[pid]);
}

/// Without a group so many sessions that all run leave an ordinary helper too little of the processor (decision 0034).
#[test]
fn a_bomb_of_two_thousand_sessions_is_ended_in_time() {
    let stage = Stage::ordinary();
    let Some(place) = Place::or_skip(&stage) else {
        return;
    };
    let (mut order, ready) = tree(&stage, &["endless-bomb", "new-session"]);
    // `RLIMIT_NPROC` of setrlimit(2).
    let (resource, most) = (6, 2000);
    order.launch.limits = vec![ResourceLimit {
        resource,
        soft: most,
        hard: most,
    }];
    let mut holder = place.helper(&stage);
    let _entered = entry(&mut holder, &order.in_group(&place.leaf));
    holder.send(&Request::Release);
    wait::file(&ready, Deadline::usual());
    holder.send(&Request::Stop(StopPlan::kill(5000)));
    let (_, end) = until_empty(&mut holder);
    assert_eq!(end.group_empty, Some(true));
    place.assert_empty();
}
