//! Starting arbiters. The program that is started is this one: with the word `arbiter` it becomes a
//! small arbiter whose manners a variable decides. So it has a harness of its own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is the harness, and the arbiter"
)]

mod fake;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use xioflow_client::{ConnectError, Connection, Endpoint, EndpointError, StartError, Starter};
use xioflow_rpc::kernel::{Hello, Running, Shutdown, ShutdownBegun};
use xioflow_rpc::method::Method;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

const NOBODY: u32 = 65534;

const TESTS: &[(&str, fn())] = &[
    (
        "an_arbiter_is_started_and_then_attached_to",
        an_arbiter_is_started_and_then_attached_to,
    ),
    (
        "an_arbiter_has_a_world_of_its_own",
        an_arbiter_has_a_world_of_its_own,
    ),
    (
        "many_clients_at_once_start_one_arbiter",
        many_clients_at_once_start_one_arbiter,
    ),
    (
        "an_arbiter_that_refuses_says_why",
        an_arbiter_that_refuses_says_why,
    ),
    (
        "the_log_of_an_arbiter_that_died_is_quoted",
        the_log_of_an_arbiter_that_died_is_quoted,
    ),
    (
        "another_program_is_no_arbiter",
        another_program_is_no_arbiter,
    ),
    (
        "an_arbiter_that_comes_and_goes_is_not_started_for_ever",
        an_arbiter_that_comes_and_goes_is_not_started_for_ever,
    ),
    (
        "a_slow_arbiter_is_left_to_become_ready",
        a_slow_arbiter_is_left_to_become_ready,
    ),
    (
        "another_starter_is_waited_for_within_patience",
        another_starter_is_waited_for_within_patience,
    ),
    (
        "an_older_arbiter_that_is_idle_is_replaced",
        an_older_arbiter_that_is_idle_is_replaced,
    ),
    (
        "an_older_arbiter_that_is_busy_is_used_or_named",
        an_older_arbiter_that_is_busy_is_used_or_named,
    ),
    (
        "a_program_that_is_older_than_its_client_is_started_once",
        a_program_that_is_older_than_its_client_is_started_once,
    ),
    (
        "an_older_client_is_to_be_updated",
        an_older_client_is_to_be_updated,
    ),
    (
        "an_arbiter_that_is_ending_is_followed_by_a_new_one",
        an_arbiter_that_is_ending_is_followed_by_a_new_one,
    ),
    (
        "a_listener_of_another_user_hears_nothing",
        a_listener_of_another_user_hears_nothing,
    ),
    (
        "a_person_cannot_type_the_option",
        a_person_cannot_type_the_option,
    ),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("arbiter") => return fake::arbiter(&words),
        Some("listen") => return fake::listen(Path::new(&words[1])),
        _ => {}
    }
    let filters: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let is_chosen =
        |name: &str| filters.is_empty() || filters.iter().any(|part| name.contains(*part));
    let chosen: Vec<_> = TESTS.iter().filter(|(name, _)| is_chosen(name)).collect();
    println!("\nrunning {} tests", chosen.len());
    let mut failed = 0;
    for &(name, test) in &chosen {
        let is_ok = thread::Builder::new()
            .name(name.to_string())
            .spawn(move || panic::catch_unwind(AssertUnwindSafe(test)).is_ok())
            .unwrap()
            .join()
            .unwrap_or(false);
        println!("test {name} ... {}", if is_ok { "ok" } else { "FAILED" });
        failed += usize::from(!is_ok);
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    let passed = chosen.len() - failed;
    println!(
        "\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {} filtered out\n",
        TESTS.len() - chosen.len()
    );
    ExitCode::from(u8::from(failed > 0))
}

/// A domain that is not there yet; its arbiter, if there is one, is asked to end at the end.
struct Domain {
    folder: tempfile::TempDir,
}

impl Domain {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("new").join("domain")
    }

    fn attach(&self, starter: &Starter, hello: &Hello) -> Result<Connection, StartError> {
        let started = starter.attach_or_start(&self.path(), hello, PATIENCE);
        started.map(|started| started.connection)
    }

    /// How many arbiters were started.
    fn starts(&self) -> usize {
        fs::read_to_string(self.path().join(fake::STARTS)).map_or(0, |text| text.lines().count())
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        let Ok(endpoint) = Endpoint::open(&self.path()) else {
            return;
        };
        for protocol in 0..4 {
            let hello = Hello {
                protocol,
                ..hello("0.0.1")
            };
            if let Ok(mut connection) = endpoint.connect(&hello) {
                end(&mut connection);
            }
        }
    }
}

/// Asks an arbiter to end, and waits until it has.
fn end(connection: &mut Connection) {
    let ask = Shutdown {
        running: Running::Stop,
        grace_ms: None,
    };
    drop(connection.call::<_, ShutdownBegun>(Method::Shutdown, ask, &[]));
    while let Ok(Some(_)) = connection.receive() {}
}

fn hello(release: &str) -> Hello {
    Hello {
        protocol: 1,
        release: release.into(),
        client: "test".into(),
    }
}

/// Starts this program as an arbiter with these manners.
fn starter(manners: &[(&str, &str)]) -> Starter {
    let variables = manners
        .iter()
        .map(|(name, value)| (name.into(), value.into()));
    Starter {
        variables: variables.collect(),
        ..Starter::new(std::env::current_exe().unwrap())
    }
}

fn an_arbiter_is_started_and_then_attached_to() {
    let domain = Domain::new();
    let first = domain.attach(&starter(&[]), &hello("0.1.0")).unwrap();
    let second = domain.attach(&starter(&[]), &hello("0.1.0")).unwrap();
    assert_eq!(first.welcome(), second.welcome());
    assert_eq!(domain.starts(), 1);
    let mode = |path: &Path| {
        use std::os::unix::fs::PermissionsExt;
        path.metadata().unwrap().permissions().mode() & 0o777
    };
    assert_eq!(mode(&domain.path()), 0o700);
    assert_eq!(mode(&domain.path().join("arbiter.lock")), 0o600);
    assert_eq!(mode(&domain.path().join("arbiter.log")), 0o600);
    assert_eq!(
        fs::read_to_string(domain.path().join("arbiter.log")).unwrap(),
        ""
    );
}

fn an_arbiter_has_a_world_of_its_own() {
    let domain = Domain::new();
    let mut starter = starter(&[("GIVEN", "yes")]);
    starter.idle = Some(Duration::from_millis(2500));
    // As a shell hands on what it has opened.
    let inherited = File::open("/etc/passwd").unwrap();
    rustix::io::fcntl_setfd(&inherited, rustix::io::FdFlags::empty()).unwrap();
    drop(domain.attach(&starter, &hello("0.1.0")).unwrap());
    let facts = fs::read(domain.path().join(fake::FACTS)).unwrap();
    let facts: serde_json::Value = serde_json::from_slice(&facts).unwrap();
    assert_eq!(facts["folder"], "/");
    assert_eq!(facts["leadsSession"], true);
    assert_eq!(facts["umask"], 0o077);
    assert_eq!(facts["stdin"], "/dev/null");
    assert_eq!(facts["stdout"], "/dev/null");
    assert_eq!(
        facts["descriptors"], 0,
        "descriptors of the starter have come along"
    );
    let variables = facts["variables"].as_array().unwrap();
    assert_eq!(variables, &["GIVEN", "GLIBC_TUNABLES", "PATH"], "{facts}");
    let path = domain.path().canonicalize().unwrap();
    let expected = [
        "arbiter",
        "--domain",
        path.to_str().unwrap(),
        "--daemon",
        "--idle",
        "2500ms",
    ];
    assert_eq!(facts["words"].as_array().unwrap(), &expected);
}

fn many_clients_at_once_start_one_arbiter() {
    for _ in 0..10 {
        let domain = Domain::new();
        let pids: Vec<u32> = thread::scope(|scope| {
            let clients: Vec<_> = (0..50)
                .map(|_| scope.spawn(|| domain.attach(&starter(&[]), &hello("0.1.0"))))
                .collect();
            let pid = |client: thread::ScopedJoinHandle<'_, Result<Connection, StartError>>| {
                client.join().unwrap().unwrap().welcome().pid
            };
            clients.into_iter().map(pid).collect()
        });
        assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
        assert_eq!(domain.starts(), 1);
    }
}

fn an_arbiter_that_refuses_says_why() {
    let domain = Domain::new();
    for _ in 0..2 {
        let refused = domain.attach(&starter(&[("MANNER", "refuse")]), &hello("0.1.0"));
        let Err(StartError::Failed(fault)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(
            (fault.kind.as_str(), fault.exit_code),
            ("domain_locked", 75)
        );
        assert_eq!(fault.causes, ["a cause"]);
    }
    // Neither has left the lock behind.
    assert!(domain.attach(&starter(&[]), &hello("0.1.0")).is_ok());
}

fn the_log_of_an_arbiter_that_died_is_quoted() {
    let domain = Domain::new();
    let died = domain.attach(&starter(&[("MANNER", "die")]), &hello("0.1.0"));
    let Err(error @ StartError::Died { .. }) = died else {
        panic!("{died:?}");
    };
    let said = error.to_string();
    assert!(
        said.contains("the disk is on fire") && said.contains("exit status: 3"),
        "{said}"
    );
    assert!(said.contains("arbiter.log"), "{said}");
    let missing = Starter::new("/nowhere/at/all");
    let missing = domain.attach(&missing, &hello("0.1.0"));
    assert!(
        matches!(missing, Err(StartError::Program { .. })),
        "{missing:?}"
    );
    assert!(domain.attach(&starter(&[]), &hello("0.1.0")).is_ok());
}

fn another_program_is_no_arbiter() {
    let domain = Domain::new();
    let echo = domain.attach(&Starter::new("/bin/echo"), &hello("0.1.0"));
    assert!(
        matches!(echo, Err(StartError::NoArbiter { .. })),
        "{echo:?}"
    );
}

fn an_arbiter_that_comes_and_goes_is_not_started_for_ever() {
    let domain = Domain::new();
    let vanished = domain.attach(&starter(&[("MANNER", "vanish")]), &hello("0.1.0"));
    assert!(
        matches!(vanished, Err(StartError::Vanished { .. })),
        "{vanished:?}"
    );
    assert_eq!(domain.starts(), 4);
}

fn a_slow_arbiter_is_left_to_become_ready() {
    let domain = Domain::new();
    fs::create_dir_all(domain.path()).unwrap();
    let go = domain.path().join(fake::GO);
    nix::unistd::mkfifo(&go, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let starter = starter(&[("MANNER", "slow")]);
    let short = Duration::from_millis(300);
    let slow = starter.attach_or_start(&domain.path(), &hello("0.1.0"), short);
    let Err(StartError::Slow { pid, .. }) = slow else {
        panic!("{slow:?}");
    };
    // It keeps the lock, so nobody starts a second one.
    let waiting = starter.attach_or_start(&domain.path(), &hello("0.1.0"), short);
    assert!(
        matches!(waiting, Err(StartError::Waiting { .. })),
        "{waiting:?}"
    );
    thread::scope(|scope| {
        let client = scope.spawn(|| domain.attach(&starter, &hello("0.1.0")).unwrap());
        drop(File::options().write(true).open(&go).unwrap());
        assert_eq!(client.join().unwrap().welcome().pid, pid);
    });
    assert_eq!(domain.starts(), 1);
}

fn another_starter_is_waited_for_within_patience() {
    let domain = Domain::new();
    fs::create_dir_all(domain.path()).unwrap();
    let lock = File::create(domain.path().join("arbiter.lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let short = Duration::from_millis(50);
    let waiting = starter(&[]).attach_or_start(&domain.path(), &hello("0.1.0"), short);
    assert!(
        matches!(waiting, Err(StartError::Waiting { .. })),
        "{waiting:?}"
    );
    drop(lock);
    assert!(domain.attach(&starter(&[]), &hello("0.1.0")).is_ok());
}

fn an_older_arbiter_that_is_idle_is_replaced() {
    for (protocol, release) in [("1", "0.2.0"), ("2", "0.1.0"), ("2", "0.0.9")] {
        let domain = Domain::new();
        drop(domain.attach(&starter(&[]), &hello("0.1.0")).unwrap());
        let newer = Hello {
            protocol: protocol.parse().unwrap(),
            ..hello(release)
        };
        let starter = starter(&[("PROTOCOL", protocol), ("RELEASE", release)]);
        let releases: Vec<String> = thread::scope(|scope| {
            let client = || {
                domain
                    .attach(&starter, &newer)
                    .unwrap()
                    .welcome()
                    .release
                    .clone()
            };
            let clients: Vec<_> = (0..10).map(|_| scope.spawn(client)).collect();
            clients
                .into_iter()
                .map(|client| client.join().unwrap())
                .collect()
        });
        assert!(
            releases.iter().all(|found| found == release),
            "{releases:?}"
        );
        assert_eq!(domain.starts(), 2);
    }
}

fn an_older_arbiter_that_is_busy_is_used_or_named() {
    let domain = Domain::new();
    let busy = starter(&[("BUSY", "3")]);
    drop(domain.attach(&busy, &hello("0.1.0")).unwrap());
    let used = domain.attach(&busy, &hello("0.2.0")).unwrap();
    assert_eq!(used.welcome().release, "0.1.0");
    let newer = Hello {
        protocol: 2,
        ..hello("0.2.0")
    };
    let named = domain.attach(&busy, &newer);
    let Err(error @ StartError::Outdated { .. }) = named else {
        panic!("{named:?}");
    };
    let said = error.to_string();
    for part in ["0.1.0", "0.2.0", "3 operations", "xioflow shutdown --wait"] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(domain.starts(), 1);
}

fn a_program_that_is_older_than_its_client_is_started_once() {
    let domain = Domain::new();
    let used = domain.attach(&starter(&[]), &hello("0.2.0")).unwrap();
    assert_eq!(used.welcome().release, "0.1.0");
    assert_eq!(domain.starts(), 1);
    let newer = Hello {
        protocol: 2,
        ..hello("0.2.0")
    };
    let named = domain.attach(&starter(&[]), &newer);
    let Err(error @ StartError::OtherProgram { .. }) = named else {
        panic!("{named:?}");
    };
    let said = error.to_string();
    assert!(said.contains("0.1.0") && said.contains("start-"), "{said}");
    assert_eq!(domain.starts(), 2);
}

fn an_older_client_is_to_be_updated() {
    let domain = Domain::new();
    let newer = Hello {
        protocol: 2,
        ..hello("0.2.0")
    };
    let starter = starter(&[("PROTOCOL", "2"), ("RELEASE", "0.2.0")]);
    drop(domain.attach(&starter, &newer).unwrap());
    let older = domain.attach(&starter, &hello("0.1.0"));
    let Err(error @ StartError::Older { .. }) = older else {
        panic!("{older:?}");
    };
    assert!(error.to_string().contains("update this program"), "{error}");
    assert_eq!(domain.starts(), 1);
}

fn an_arbiter_that_is_ending_is_followed_by_a_new_one() {
    let domain = Domain::new();
    drop(
        domain
            .attach(&starter(&[("MANNER", "ending")]), &hello("0.1.0"))
            .unwrap(),
    );
    let next = domain.attach(&starter(&[]), &hello("0.1.0")).unwrap();
    assert_eq!(domain.starts(), 2);
    assert_ne!(next.welcome().pid, 0);
}

fn a_listener_of_another_user_hears_nothing() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can start a process of another user");
        return;
    }
    let domain = tempfile::tempdir().unwrap();
    let made = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(made.path(), Some(NOBODY), None).unwrap();
    // A copy, because the other user may not be able to reach this program where it lies.
    let program = made.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut listener = Command::new(&program)
        .args(["listen".as_ref(), made.path().join("s").as_os_str()])
        .uid(NOBODY)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(listener.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "listening");
    let socket = domain.path().join("kernel.sock");
    fs::rename(made.path().join("s"), &socket).unwrap();
    std::os::unix::fs::chown(&socket, Some(0), None).unwrap();
    let refused = Endpoint::open(domain.path())
        .unwrap()
        .connect(&hello("0.1.0"));
    let Err(ConnectError::Endpoint(EndpointError::ForeignPeer { peer_uid, .. })) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(peer_uid, NOBODY);
    assert_eq!(said.next().unwrap().unwrap(), "heard 0 bytes");
    assert!(listener.wait().unwrap().success());
}

fn a_person_cannot_type_the_option() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["arbiter", "--domain", "/", "--daemon"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    std::io::stdout().flush().unwrap();
    assert_eq!(output.status.code(), Some(64));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("leave --daemon out"), "{said}");
}
