//! A small arbiter for the tests of starting: it greets and ends when asked, and can misbehave.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{self, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use xioflow_client::Daemon;
use xioflow_rpc::SOCKET_NAME;
use xioflow_rpc::start::StartFault;

/// A line for each arbiter that was started.
pub(crate) const STARTS: &str = "starts";

/// What an arbiter has found out about its own world.
pub(crate) const FACTS: &str = "facts";

/// A named pipe that a slow arbiter waits for.
pub(crate) const GO: &str = "go";

/// No arbiter outlives its test by more than this.
const IDLE: Timespec = Timespec {
    tv_sec: 30,
    tv_nsec: 0,
};

fn manner() -> String {
    env::var("MANNER").unwrap_or_default()
}

pub(crate) fn arbiter(words: &[String]) -> ExitCode {
    let domain = Path::new(&words[2]).to_owned();
    if manner() == "die" {
        eprintln!("the disk is on fire");
        return ExitCode::from(3);
    }
    let daemon = match Daemon::begin() {
        Ok(daemon) => daemon,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(64);
        }
    };
    note_start(&domain);
    note_facts(&domain, words);
    match manner().as_str() {
        "refuse" => daemon.failed(StartFault {
            kind: "domain_locked".into(),
            message: "somebody has it".into(),
            causes: vec!["a cause".into()],
            hint: None,
            exit_code: 75,
        }),
        "vanish" => daemon.ready(),
        "slow" => {
            drop(File::open(domain.join(GO)).unwrap());
            serve(&domain, daemon);
        }
        _ => serve(&domain, daemon),
    }
    ExitCode::SUCCESS
}

fn note_start(domain: &Path) {
    let starts = domain.join(STARTS);
    let mut starts = File::options()
        .append(true)
        .create(true)
        .open(starts)
        .unwrap();
    writeln!(starts, "{}", process::id()).unwrap();
}

fn note_facts(domain: &Path, words: &[String]) {
    let target = |fd: i32| fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
    let mut variables: Vec<String> = env::vars().map(|(name, _)| name).collect();
    variables.sort();
    let mask = rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let session = rustix::process::getsid(None).unwrap();
    let facts = json!({
        "folder": env::current_dir().unwrap(),
        "leadsSession": session == rustix::process::getpid(),
        "umask": mask.bits(),
        "stdin": target(0),
        "stdout": target(1),
        "descriptors": stray_descriptors(),
        "variables": variables,
        "words": words,
    });
    fs::write(domain.join(FACTS), facts.to_string()).unwrap();
}

/// How many descriptors there are beside the standard three, the lock, and the starter's pipe.
fn stray_descriptors() -> usize {
    let known = ["arbiter.lock", "pipe:", "/proc/"];
    let entries = fs::read_dir("/proc/self/fd").unwrap();
    let targets = entries.filter_map(|entry| {
        let entry = entry.unwrap();
        let is_standard = ["0", "1", "2"]
            .iter()
            .any(|name| entry.file_name() == *name);
        (!is_standard).then(|| fs::read_link(entry.path()).unwrap_or_default())
    });
    targets
        .filter(|target| {
            let target = target.to_string_lossy();
            !known.iter().any(|part| target.contains(part))
        })
        .count()
}

fn serve(domain: &Path, daemon: Daemon) {
    // One that ends has the domain until it is gone; only who has it may touch the socket.
    let owned = File::create(domain.join("domain.lock")).unwrap();
    flock(&owned, FlockOperation::LockExclusive).unwrap();
    let socket = domain.join(SOCKET_NAME);
    drop(fs::remove_file(&socket));
    let listener = UnixListener::bind(&socket).unwrap();
    daemon.ready();
    loop {
        let mut fds = [PollFd::new(&listener, PollFlags::IN)];
        if poll(&mut fds, Some(&IDLE)).unwrap() == 0 {
            return;
        }
        let (stream, _) = listener.accept().unwrap();
        let socket = socket.clone();
        thread::spawn(move || answer(&stream, &socket));
    }
}

/// Answers a client until it goes.
fn answer(stream: &UnixStream, socket: &Path) {
    let mut lines = BufReader::new(stream).lines();
    while let Some(Ok(line)) = lines.next() {
        let asked: Value = serde_json::from_str(&line).unwrap();
        match asked["method"].as_str() {
            Some("kernel.hello") if manner() == "ending" && !is_first() => {
                let error = json!({"code": -32000, "message": "it ends", "data": {"kind": "shutting_down"}});
                reply(stream, &asked, "error", &error);
                process::exit(0);
            }
            Some("kernel.hello") => reply(stream, &asked, "result", &welcome()),
            _ if is_busy() && asked["params"]["running"] == "refuse" => {
                let subject =
                    json!({"operations": env::var("BUSY").unwrap().parse::<u64>().unwrap()});
                let data = json!({"kind": "running", "subject": subject});
                let error = json!({"code": -32000, "message": "busy", "data": data});
                reply(stream, &asked, "error", &error);
            }
            _ => {
                // Another connection may have asked for the end as well.
                drop(fs::remove_file(socket));
                reply(stream, &asked, "result", &json!({"operations": 0}));
                process::exit(0);
            }
        }
    }
}

/// True once.
fn is_first() -> bool {
    static ASKED: AtomicBool = AtomicBool::new(false);
    !ASKED.swap(true, Ordering::Relaxed)
}

fn is_busy() -> bool {
    env::var_os("BUSY").is_some()
}

fn welcome() -> Value {
    let protocol: u32 = env::var("PROTOCOL").map_or(1, |text| text.parse().unwrap());
    let release = env::var("RELEASE").unwrap_or_else(|_| "0.1.0".into());
    json!({"protocol": protocol, "release": release, "pid": process::id(), "startedAt": "1970-01-01T00:00:00Z"})
}

fn reply(mut stream: &UnixStream, asked: &Value, key: &str, value: &Value) {
    let line = json!({"jsonrpc": "2.0", "id": asked["id"], key: value});
    // The client may be gone.
    drop(stream.write_all(format!("{line}\n").as_bytes()));
}

/// Listens once, and says how much it has heard.
pub(crate) fn listen(path: &Path) -> ExitCode {
    let listener = UnixListener::bind(path).unwrap();
    println!("listening");
    let (mut stream, _) = listener.accept().unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).unwrap();
    println!("heard {} bytes", heard.len());
    ExitCode::SUCCESS
}
