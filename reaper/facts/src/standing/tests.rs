//! Standings of real processes, each made to differ in one way.

use super::*;

use std::eprintln;
use std::format;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A process that has come to its last program: cat(1), which answers.
struct Settled(Child);

impl Settled {
    /// Runs the words, which must end in `cat`; `None` when this host refuses.
    fn new(words: &[&str]) -> Option<Self> {
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program runs");
        let stdin = child.stdin.as_mut().expect("piped");
        // One that ends at once has nobody who reads.
        stdin.write_all(b"x").ok();
        let mut answer = [0];
        let stdout = child.stdout.as_mut().expect("piped");
        let settled = stdout.read(&mut answer).expect("a pipe is read") == 1;
        let settled = Self(child).when(settled);
        if settled.is_none() {
            eprintln!("skipped: this host or this user cannot {}", words.join(" "));
        }
        settled
    }

    fn when(self, settled: bool) -> Option<Self> {
        settled.then_some(self)
    }

    fn standing(&self) -> Standing {
        Standing::of(self.0.id()).expect("it lives")
    }
}

impl Drop for Settled {
    fn drop(&mut self) {
        self.0.kill().expect("a child of ours");
        self.0.wait().expect("a child of ours");
    }
}

/// What differs between this process and one that was started by these words.
fn difference(words: &[&str]) -> Option<Vec<&'static str>> {
    let other = Settled::new(words)?.standing();
    let ours = Standing::of(std::process::id()).expect("we live");
    let names = ours.differs(&other);
    assert_eq!(names, other.differs(&ours), "both ways say the same");
    Some(names)
}

fn assert_differs(words: &[&str], expected: &[&str]) {
    if let Some(names) = difference(words) {
        assert_eq!(names, expected, "{words:?}");
    }
}

#[test]
fn a_child_stands_where_its_parent_stands() {
    let child = Settled::new(&["cat"]).expect("it runs anywhere");
    let ours = Standing::of(std::process::id()).expect("we live");
    assert_eq!(ours.differs(&child.standing()), [""; 0]);
}

#[test]
fn restrictions_are_told() {
    let flag = ["setpriv", "--no-new-privs", "cat"];
    let already = has_line("NoNewPrivs:\t1");
    assert_differs(&flag, if already { &[] } else { &["no_new_privs"] });
    // Without privilege setpriv(1) leaves it as it is.
    if is_root() {
        let words = ["setpriv", "--bounding-set", "-sys_nice", "cat"];
        assert_differs(&words, &["capabilities", "capability bounding set"]);
    }
}

#[test]
fn users_and_groups_are_told() {
    if !is_root() {
        eprintln!("skipped: needs root to become somebody else");
        return;
    }
    assert_differs(&["setpriv", "--groups", "65533", "cat"], &["groups"]);
    assert_differs(
        &["setpriv", "--regid", "65533", "--keep-groups", "cat"],
        &["gid"],
    );
    let names = difference(&["setpriv", "--reuid", "65534", "--keep-groups", "cat"]);
    assert_eq!(names.as_deref(), Some(&["uid", "capabilities"][..]));
}

#[test]
fn each_namespace_is_told() {
    let root = is_root();
    let kinds = [
        ("--net", "net namespace"),
        ("--ipc", "ipc namespace"),
        ("--uts", "uts namespace"),
        ("--mount", "mnt namespace"),
        ("--cgroup", "cgroup namespace"),
    ];
    for (option, name) in kinds.into_iter().filter(|_| root) {
        assert_differs(&["unshare", option, "cat"], &[name]);
    }
    // Users may make one of their own where the host lets them; they have all capabilities in it.
    if let Some(names) = difference(&["unshare", "--user", "cat"]) {
        assert!(names.contains(&"user namespace"), "{names:?}");
    }
}

#[test]
fn another_root_folder_is_told() {
    if !is_root() {
        eprintln!("skipped: needs root to change the root folder");
        return;
    }
    let folder = std::env::temp_dir().join(format!("xioflow-root-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    let script = "mount -t tmpfs none \"$0\" && cd \"$0\" && mkdir usr && mount --bind /usr usr && \
        for d in /lib*; do if [ -L $d ]; then cp -d $d .; \
        else mkdir .$d && mount --bind $d .$d; fi; done && exec chroot . /usr/bin/cat";
    let words = ["unshare", "--mount", "sh", "-c", script, text(&folder)];
    assert_differs(&words, &["mnt namespace", "root folder"]);
    std::fs::remove_dir(&folder).expect("nothing is in it");
}

#[test]
fn what_may_not_be_read_is_a_difference() {
    let known = Place::Known {
        device: 4,
        inode: 9,
    };
    for other in [known, Place::Absent, Place::CannotTell] {
        let name = Place::CannotTell.differs(other, ROOT);
        assert_eq!(name, Some("root folder (cannot tell)"));
        assert_eq!(other.differs(Place::CannotTell, ROOT), name);
    }
    assert_eq!(known.differs(Place::Absent, ROOT), Some("root folder"));
    assert_eq!(Place::Absent.differs(Place::Absent, ROOT), None);
}

#[test]
fn what_is_of_another_user_cannot_be_told() {
    if is_root() {
        eprintln!("skipped: needs a user without privilege, who may not look into everybody");
        return;
    }
    let first = Standing::of(1).expect("its status is for everybody");
    assert_eq!(first.root, Place::CannotTell);
    let names = first.differs(&first);
    assert!(names.contains(&"net namespace (cannot tell)"), "{names:?}");
}

#[test]
fn nobody_stands_nowhere() {
    assert!(Standing::of(4_194_305).is_err());
    let mut child = Command::new("true").spawn().expect("true runs");
    let pid = child.id();
    child.wait().expect("a child of ours");
    assert!(Standing::of(pid).is_err());
}

const STATUS: &str = "Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t9 10 \n\
    CapInh:\t01\nCapPrm:\t02\nCapEff:\t000001fffeffffff\nCapBnd:\t08\nCapAmb:\t10\n\
    NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\n";

#[test]
fn every_line_counts() {
    let whole = Status::parse(STATUS.as_bytes()).expect("well-formed");
    assert_eq!(whole.uids, Some([1, 2, 3, 4]));
    assert_eq!(whole.groups.as_deref(), Some(&[9, 10][..]));
    assert_eq!(whole.capabilities[2], Some(0x01ff_feff_ffff));
    assert_eq!(whole.differs(&whole), [""; 0]);
    let changes = [
        ("Uid:\t1", "Uid:\t0", "uid"),
        ("\t8\n", "\t0\n", "gid"),
        ("9 10", "9", "groups"),
        ("CapInh:\t01", "CapInh:\t00", "capabilities"),
        ("CapPrm:\t02", "CapPrm:\t00", "capabilities"),
        ("CapEff:\t0", "CapEff:\t1", "capabilities"),
        ("CapAmb:\t10", "CapAmb:\t00", "capabilities"),
        ("CapBnd:\t08", "CapBnd:\t00", "capability bounding set"),
        ("NoNewPrivs:\t1", "NoNewPrivs:\t0", "no_new_privs"),
        ("Seccomp:\t2", "Seccomp:\t0", "seccomp"),
        ("filters:\t3", "filters:\t4", "seccomp"),
    ];
    for (from, to, name) in changes {
        let changed = STATUS.replacen(from, to, 1);
        assert_ne!(changed, STATUS, "{from}");
        let other = Status::parse(changed.as_bytes()).expect("well-formed");
        assert_eq!(whole.differs(&other), [name]);
    }
    // A line that only one of them has is a difference as well.
    let less = Status::parse(STATUS.replace("NoNewPrivs:\t1\n", "").as_bytes());
    assert_eq!(whole.differs(&less.expect("well-formed")), ["no_new_privs"]);
}

#[test]
fn what_is_not_as_described_is_nothing() {
    for (from, to) in [
        ("Uid:\t1\t2\t3\t4", "Uid:\t1\t2\t3"),
        ("Uid:", "uid:"),
        ("Gid:\t5", "Gid:\tx"),
        ("Groups:\t9", "Groups:\t-9"),
        ("CapEff:\t0", "CapEff:\tz"),
        ("Seccomp:\t2", "Seccomp:\t"),
    ] {
        let changed = STATUS.replacen(from, to, 1);
        assert_ne!(changed, STATUS, "{from}");
        assert_eq!(Status::parse(changed.as_bytes()), None, "{to}");
    }
    assert_eq!(Status::parse(b""), None);
    let hostile = STATUS.replacen("x\n", "\\nUid:\u{fffd}\n", 1);
    assert!(Status::parse(hostile.as_bytes()).is_some());
}

fn is_root() -> bool {
    has_line("Uid:\t0\t0\t0\t0")
}

fn has_line(line: &str) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    status.lines().any(|it| it == line)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}
