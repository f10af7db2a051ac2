//! Limits that the kernel enforces. Each test needs its controllers in version 2 and is skipped without.

use std::fs;
use std::io;
use std::path::Path;

use xioflow_cgroup::{
    Controllers, CpuMax, GroupError, Leaf, Limits, OutOfMemory, PrepareError, Root,
};

use crate::support::{HOST_NAME, Inmate, LONG, Place, found};

const MIB: u64 = 1 << 20;

/// Takes 96 MiB and fills them.
const HOG: &str = "exec dd if=/dev/zero of=/dev/null bs=96M count=1";

/// A root that has these controllers and does not hand them down yet; null, with a word about it,
/// where they cannot be had.
fn with(controllers: &str) -> Option<Place> {
    let wanted = Controllers::parse(controllers);
    let above = found()?;
    let available = above.available().unwrap_or(Controllers::NONE);
    if !wanted.without(available).is_empty() {
        println!("skipped: needs {wanted} in version 2, this root has \"{available}\"");
        return None;
    }
    match hand_down(above.directory(), controllers) {
        Ok(()) => Some(Place::below(&above)),
        Err(error) => {
            println!("skipped: needs {wanted} handed down ({error})");
            None
        }
    }
}

/// Enables controllers in the given root, after moving whoever is in it aside. Other tests may do so at
/// the same time.
fn hand_down(root: &Path, controllers: &str) -> io::Result<()> {
    let order = format!("+{}", controllers.replace(' ', " +"));
    for _ in 0..20 {
        step_aside(root)?;
        match fs::write(root.join("cgroup.subtree_control"), &order) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
            answer => return answer,
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

fn step_aside(root: &Path) -> io::Result<()> {
    let list = fs::read_to_string(root.join("cgroup.procs"))?;
    // The real root keeps its processes, and hands controllers down all the same.
    if list.is_empty() || !root.join("cgroup.events").exists() {
        return Ok(());
    }
    let host = root.join(HOST_NAME);
    match fs::create_dir(&host) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for pid in list.lines() {
        // Who has ended meanwhile needs no move.
        fs::write(host.join("cgroup.procs"), pid).ok();
    }
    Ok(())
}

/// The same when it does.
fn prepared(controllers: &str) -> Option<Place> {
    let place = with(controllers)?;
    let prepared = place.root.prepare(Controllers::parse(controllers));
    prepared.expect("what the root above hands down can be handed on");
    Some(place)
}

fn memory(max_bytes: u64) -> Limits {
    Limits {
        memory_max_bytes: Some(max_bytes),
        ..Limits::default()
    }
}

fn pids(max: u64) -> Limits {
    Limits {
        pids_max: Some(max),
        ..Limits::default()
    }
}

fn setting(leaf: &Leaf, file: &str) -> String {
    let text = fs::read_to_string(leaf.place().directory.join(file));
    text.unwrap_or_else(|error| panic!("{file}: {error}"))
        .trim_end()
        .to_owned()
}

/// Forks one child after the other until one is refused.
const FORKS: &str = "i=0; while [ $i -lt 40 ]; do sleep 1000 & i=$((i+1)); done; exit 0";

#[test]
fn a_leaf_over_its_memory_is_killed_and_the_limit_is_its_own() {
    let Some(place) = prepared("memory") else {
        return;
    };
    let leaf = place
        .domain()
        .leaf(&memory(32 * MIB))
        .expect("a leaf with a limit");
    assert_eq!(setting(&leaf, "memory.max"), (32 * MIB).to_string());
    assert_eq!(setting(&leaf, "memory.oom.group"), "1");
    let mut events = leaf.events().expect("a leaf can be watched");
    events.read().expect("the first look gives all");

    let mut hog = Inmate::run(&leaf.place().directory, HOG);
    assert!(!hog.wait());
    assert!(leaf.wait_empty(LONG).expect("its state"));
    let counters = leaf.counters().expect("its counters");
    assert_eq!(
        counters.out_of_memory(),
        Some(OutOfMemory::Own),
        "{counters:?}"
    );
    let told = events
        .read()
        .expect("a look")
        .memory
        .expect("memory.events changed");
    assert!(told.oom_kill.is_some_and(|kills| kills > 0), "{told:?}");
    // Linux 5.19 brought the file.
    if let Some(peak) = leaf.usage().memory_peak_bytes {
        assert!((16 * MIB..=32 * MIB).contains(&peak), "{peak}");
    }
}

#[test]
fn a_kill_for_the_domains_memory_is_from_above() {
    let Some(place) = prepared("memory") else {
        return;
    };
    let domain = place.domain();
    let leaf = domain
        .leaf(&memory(1024 * MIB))
        .expect("a leaf with a limit");
    domain
        .set_memory_max(Some(32 * MIB))
        .expect("a domain takes a limit");
    fs::write(domain.directory().join("memory.swap.max"), "0").ok();
    let mut hog = Inmate::run(&leaf.place().directory, HOG);
    assert!(!hog.wait());
    assert!(leaf.wait_empty(LONG).expect("its state"));
    let counters = leaf.counters().expect("its counters");
    assert_eq!(
        counters.out_of_memory(),
        Some(OutOfMemory::Above),
        "{counters:?}"
    );

    domain.set_memory_max(None).expect("the limit is lifted");
    let mut hog = Inmate::run(&leaf.place().directory, HOG);
    assert!(hog.wait(), "there is memory again");
}

#[test]
fn a_kill_in_a_group_of_the_command_is_its_own_affair() {
    let Some(place) = prepared("memory") else {
        return;
    };
    let leaf = place
        .domain()
        .leaf(&memory(1024 * MIB))
        .expect("a leaf with a limit");
    let directory = &leaf.place().directory;
    fs::write(directory.join("cgroup.subtree_control"), "+memory").expect("nobody is in it");
    let nested = directory.join("nested");
    fs::create_dir(&nested).expect("a group in a leaf");
    fs::write(nested.join("memory.max"), (32 * MIB).to_string()).expect("a limit");
    fs::write(nested.join("memory.swap.max"), "0").ok();
    let mut hog = Inmate::run(&nested, HOG);
    assert!(!hog.wait());
    assert!(leaf.wait_empty(LONG).expect("its state"));
    let counters = leaf.counters().expect("its counters");
    assert_eq!(
        counters.out_of_memory(),
        Some(OutOfMemory::Nested),
        "{counters:?}"
    );
}

#[test]
fn a_kill_by_signal_is_no_want_of_memory() {
    let Some(place) = prepared("memory") else {
        return;
    };
    let leaf = place
        .domain()
        .leaf(&memory(64 * MIB))
        .expect("a leaf with a limit");
    let mut inmate = Inmate::idle(&leaf.place().directory);
    leaf.kill().expect("it is ended");
    assert!(!inmate.wait());
    assert_eq!(leaf.counters().expect("its counters").out_of_memory(), None);
}

#[test]
fn a_fork_over_the_leafs_limit_is_counted_as_its_own() {
    let Some(place) = prepared("pids") else {
        return;
    };
    let leaf = place.domain().leaf(&pids(16)).expect("a leaf with a limit");
    let mut forks = Inmate::run(&leaf.place().directory, FORKS);
    forks.wait();
    let (counters, usage) = (leaf.counters().expect("its counters"), leaf.usage());
    assert!(
        counters.pids.max.is_some_and(|count| count > 0),
        "{counters:?}"
    );
    // Without `pids.events.local` (6.11) and `pids.peak` nobody can tell whose limit it was.
    let own = counters.pids.own_limit_hit(16, usage.pids_peak);
    let tells = counters.pids.own_max.is_some() || usage.pids_peak.is_some();
    assert_eq!(own, tells.then_some(true), "{counters:?} {usage:?}");
}

#[test]
fn a_fork_over_a_limit_above_is_not_counted_as_the_leafs() {
    let Some(place) = prepared("pids") else {
        return;
    };
    let domain = place.domain();
    let leaf = domain.leaf(&pids(1000)).expect("a leaf with a limit");
    fs::write(domain.directory().join("pids.max"), "8").expect("a limit above");
    let mut forks = Inmate::run(&leaf.place().directory, FORKS);
    forks.wait();
    let (counters, usage) = (leaf.counters().expect("its counters"), leaf.usage());
    let own = counters.pids.own_limit_hit(1000, usage.pids_peak);
    assert_ne!(own, Some(true), "{counters:?} {usage:?}");
}

#[test]
fn a_fork_over_the_limit_in_a_nested_group_is_counted_too() {
    let Some(place) = prepared("pids") else {
        return;
    };
    let leaf = place.domain().leaf(&pids(16)).expect("a leaf with a limit");
    let directory = &leaf.place().directory;
    fs::write(directory.join("cgroup.subtree_control"), "+pids").expect("nobody is in it");
    let nested = directory.join("nested");
    fs::create_dir(&nested).expect("a group in a leaf");
    let mut forks = Inmate::run(&nested, FORKS);
    forks.wait();
    let counters = leaf.counters().expect("its counters");
    assert!(
        counters.pids.max.is_some_and(|count| count > 0),
        "{counters:?}"
    );
    assert_ne!(
        counters.pids.own_limit_hit(16, leaf.usage().pids_peak),
        Some(false)
    );
}

#[test]
fn a_busy_leaf_gets_its_share_of_a_processor() {
    let Some(place) = prepared("cpu") else { return };
    let limits = Limits {
        cpu_max: Some(CpuMax {
            quota_us: 10_000,
            period_us: 100_000,
        }),
        ..Limits::default()
    };
    let leaf = place.domain().leaf(&limits).expect("a leaf with a limit");
    assert_eq!(setting(&leaf, "cpu.max"), "10000 100000");
    // Busy until it has been held back once, which takes one period; the bound is for a kernel that
    // does not hold it back.
    let script = "i=0; while grep -q '^nr_throttled 0$' cpu.stat; do \
        i=$((i+1)); [ $i -lt 5000 ] || exit 1; done";
    let mut busy = Inmate::run(&leaf.place().directory, script);
    assert!(
        busy.wait(),
        "it was never held back: {}",
        setting(&leaf, "cpu.stat")
    );
    let usage = leaf.usage();
    assert!(usage.cpu_user_us.is_some_and(|used| used > 0), "{usage:?}");
}

#[test]
fn odd_limits_are_taken_or_named() {
    let Some(place) = prepared("memory pids cpu") else {
        return;
    };
    let domain = place.domain();
    let huge = Limits {
        memory_max_bytes: Some(u64::MAX),
        memory_high_bytes: Some(4097),
        pids_max: Some(u64::MAX),
        ..Limits::default()
    };
    let leaf = domain.leaf(&huge).expect("more than there is, is no limit");
    assert_eq!(setting(&leaf, "memory.max"), "max");
    assert_eq!(setting(&leaf, "pids.max"), "max");
    assert_eq!(setting(&leaf, "memory.high"), "4096", "whole pages");

    leaf.set(&pids(7)).expect("it can be set later");
    assert_eq!(setting(&leaf, "pids.max"), "7");
    assert_eq!(
        setting(&leaf, "memory.high"),
        "4096",
        "what is not named stays"
    );
}

#[test]
fn a_domain_with_a_process_hands_nothing_down_and_names_it() {
    let Some(place) = prepared("memory") else {
        return;
    };
    let domain = place.domain();
    let inmate = Inmate::idle(domain.directory());
    let refused = domain
        .leaf(&memory(MIB))
        .expect_err("somebody is in the way");
    assert!(
        matches!(refused, GroupError::HoldsProcesses { .. }),
        "{refused:?}"
    );
    assert!(
        refused.to_string().contains(&inmate.pid().to_string()),
        "{refused}"
    );
}

#[test]
fn a_root_with_processes_is_emptied_once_and_its_leaves_take_processes() {
    // The kernel would hand pids down without that, and the leaves would take nobody.
    for controllers in ["pids", "memory pids"] {
        let Some(place) = with(controllers) else {
            return;
        };
        let wanted = Controllers::parse(controllers);
        let mut inmates: Vec<_> = (0..3).map(|_| Inmate::idle(place.directory())).collect();
        let first = place.root.prepare(wanted).expect("they can be moved");
        assert_eq!((first.moved, first.enabled), (3, wanted));
        let again = place.root.prepare(wanted).expect("nothing is left to do");
        assert_eq!(again.moved, 0);
        assert!(inmates.iter_mut().all(Inmate::is_alive));

        let leaf = place.domain().leaf(&pids(16)).expect("a leaf with a limit");
        let mut inmate = Inmate::run(&leaf.place().directory, "exit 0");
        assert!(inmate.wait());
    }
}

#[test]
fn several_prepare_one_root_at_once() {
    let Some(place) = with("memory pids") else {
        return;
    };
    let wanted = Controllers::parse("memory pids");
    let script = "i=0; while [ $i -lt 200 ]; do true & i=$((i+1)); done; exec sleep 1000";
    let _inmates: Vec<_> = (0..3)
        .map(|_| Inmate::run(place.directory(), script))
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let root = Root::at(place.directory()).expect("it is a root");
                let prepared = root
                    .prepare(wanted)
                    .expect("they do not disturb each other");
                assert_eq!(wanted.without(prepared.enabled), Controllers::NONE);
            });
        }
    });
}

#[test]
fn what_the_root_was_not_given_is_named_before_anybody_moves() {
    let Some(place) = with("memory") else {
        return;
    };
    let mut inmate = Inmate::idle(place.directory());
    let available = place.root.available().expect("a list");
    let lacking = Controllers::all().without(available);
    if lacking.is_empty() {
        println!("skipped: this root has every controller");
        return;
    }
    let refused = place
        .root
        .prepare(Controllers::all())
        .expect_err("some are missing");
    assert!(
        matches!(refused, PrepareError::Lacking { .. }),
        "{refused:?}"
    );
    assert!(
        refused.to_string().contains(&lacking.to_string()),
        "{refused}"
    );
    assert!(inmate.is_alive() && !place.directory().join("xioflow-host").exists());
}
