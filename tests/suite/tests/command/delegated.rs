//! Work that a command gives to a daemon outside of its tree: what of that is seen and told.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use xioflow_kit::{Deadline, Stage, Started, each_user, wait};

use crate::{assert_fields, run, run_json, shell, text};

/// A daemon of the fixture outside of every tree, on a socket with this name.
pub(crate) fn daemon<'a>(stage: &'a Stage, socket: &str) -> (Started<'a>, PathBuf) {
    let (socket, ready) = (stage.path(socket), stage.path("daemon.ready"));
    let words = ["--ready", text(&ready), "daemon", text(&socket)];
    let started = stage.run(stage.fixture()).args(words).start();
    stage.wait_ready(&ready);
    (started, socket)
}

/// The words of a client that has a worker started there, and the file in which it says who that is.
pub(crate) fn client(stage: &Stage, socket: &Path, options: &[&str]) -> (Vec<String>, PathBuf) {
    let (fixture, ready) = (stage.fixture(), stage.path("client.ready"));
    let words = [text(&fixture), "--ready", text(&ready)];
    let words = words.iter().chain(options).copied();
    let words = words.chain(["delegate", text(socket)]);
    (words.map(str::to_owned).collect(), ready)
}

/// Ends it with everything that it has started.
pub(crate) fn end(stage: &Stage, daemon: Started<'_>, socket: &Path) {
    let recalled = stage
        .run(stage.fixture())
        .args(["recall", text(socket)])
        .finish();
    recalled.assert_code(0);
    daemon.signal(Signal::KILL);
    daemon.finish();
}

fn delegated(document: &Value) -> &Vec<Value> {
    document["delegated"].as_array().expect("somebody looked")
}

#[test]
fn a_server_outside_that_a_stopped_tree_was_connected_to_is_named() {
    each_user(|stage| {
        let (daemon, socket) = daemon(stage, "server.sock");
        let (words, ready) = client(stage, &socket, &[]);
        let (finished, document) = run_json(stage, &["--timeout", "1500ms"], &words);
        finished.assert_code(124);
        // Nothing of what the tree started is left, and this is another matter.
        assert_fields(
            &document,
            &json!({ "treeSettlement": "empty", "residualPids": [] }),
        );
        let worker = stage.wait_ready(&ready)[1];
        assert!(wait::is_alive(worker), "it is nobody's to be ended");
        let [found] = delegated(&document).as_slice() else {
            panic!("one is named: {document:#}");
        };
        let expected = json!({
            "client": null, "evidence": "socket", "socket": text(&socket), "isMeantToGoOn": false,
        });
        assert_fields(found, &expected);
        assert!(found["pid"].is_u64(), "{document:#}");
        end(stage, daemon, &socket);
    });
}

/// A connection within the tree is none to the outside.
#[test]
fn a_server_of_the_tree_itself_is_not_named() {
    let stage = Stage::new();
    let socket = stage.path("own.sock");
    let (words, ready) = client(&stage, &socket, &[]);
    let (fixture, up) = (stage.fixture(), stage.path("daemon.ready"));
    let script = format!(
        "{} --ready {} daemon {} & while [ ! -e {} ]; do sleep 0.01; done; {}",
        text(&fixture),
        text(&up),
        text(&socket),
        text(&up),
        words.join(" ")
    );
    let started = run(&stage, &["--json"], &shell(&script)).start();
    stage.wait_ready(&ready);
    started.signal(Signal::INT);
    let finished = started.finish();
    finished.assert_code(130);
    assert_eq!(finished.json()["delegated"], json!([]), "{finished}");
}

/// Behind some sockets it is known who takes work, and how to look for it.
#[test]
fn a_known_server_is_told_to_people_when_the_tree_was_stopped() {
    let stage = Stage::new();
    let (daemon, socket) = daemon(&stage, "docker.sock");
    let (words, ready) = client(&stage, &socket, &[]);
    let started = run(&stage, &[], &words).start();
    stage.wait_ready(&ready);
    started.signal(Signal::INT);
    let finished = started.finish();
    finished
        .assert_code(130)
        .assert_complains("outside of what this tree started")
        .assert_complains("docker ps --all");
    end(&stage, daemon, &socket);
}

/// Stand-ins with the names of real clients, which do nothing.
#[test]
fn a_client_is_told_by_what_it_was_asked_for() {
    let stage = Stage::new();
    let docker = stage.write("docker", "#!/bin/sh\nexit \"${STATUS:-0}\"\n", 0o755);
    let (finished, document) = run_json(&stage, &[], &[text(&docker), "run", "alpine"]);
    finished.assert_code(0);
    let expected = json!({ "client": "docker", "evidence": "command", "isMeantToGoOn": false });
    assert_fields(&delegated(&document)[0], &expected);
    // It did what it was asked for, and nobody is told anything.
    for words in [&["run", "alpine"][..], &["ps", "-d"]] {
        let words = [&[text(&docker)], words].concat();
        let finished = run(&stage, &[], &words).finish();
        finished.assert_code(0).assert_stderr("");
    }
    let detached = [text(&docker), "run", "-d", "nginx"];
    let finished = run(&stage, &[], &detached).finish();
    finished
        .assert_code(0)
        .assert_complains("docker rm --force");
    let finished = run(&stage, &["--quiet"], &detached).finish();
    finished.assert_code(0).assert_stderr("");
}

#[test]
fn of_an_ordinary_command_nothing_is_seen_and_nothing_said() {
    let stage = Stage::new();
    let (finished, document) = run_json(&stage, &[], &shell("echo out"));
    finished.assert_code(0).assert_stderr("");
    assert_eq!(document["delegated"], json!([]));
    let (_, document) = run_json(&stage, &[], &["/nonexistent/docker", "run"]);
    assert_eq!(document["delegated"], Value::Null, "nothing ran");
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn skipped() {
    eprintln!("skipped: needs tmux");
}

/// A tmux with a socket of its own; ended with the stage.
pub(crate) struct Tmux {
    pub(crate) socket: PathBuf,
}

impl Tmux {
    /// Starts the server, outside of every tree; `None` without the program.
    pub(crate) fn start(stage: &Stage) -> Option<Self> {
        let tmux = Self {
            socket: stage.path("tmux-0"),
        };
        let started = tmux.tell(&["new-session", "-d", "-s", "first", "sleep 300"]);
        if started.is_none() {
            skipped();
        }
        started.map(|()| tmux)
    }

    /// Has it do something.
    pub(crate) fn tell(&self, words: &[&str]) -> Option<()> {
        let mut tmux = Command::new("tmux");
        tmux.arg("-f/dev/null").arg("-S").arg(&self.socket);
        let told = tmux.args(words).output().ok()?;
        told.status.success().then_some(())
    }

    /// The words of a command that leaves a window with it.
    pub(crate) fn words<'a>(&'a self, name: &'a str) -> Vec<&'a str> {
        let socket = text(&self.socket);
        [
            "tmux",
            "-S",
            socket,
            "new-session",
            "-d",
            "-s",
            name,
            "sleep 300",
        ]
        .to_vec()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.tell(&["kill-server"]);
        // Its processes end on their own time.
        wait::until("the server of tmux is gone", Deadline::usual(), || {
            self.tell(&["list-sessions"]).is_none()
        });
    }
}

#[test]
fn a_window_of_a_tmux_that_ran_before_goes_on_and_is_told() {
    let stage = Stage::new();
    let Some(tmux) = Tmux::start(&stage) else {
        return;
    };
    let words = tmux.words("second");
    let (finished, document) = run_json(&stage, &[], &words);
    finished
        .assert_code(0)
        .assert_complains("tmux kill-session");
    assert_fields(
        &document,
        &json!({ "status": "succeeded", "treeSettlement": "empty", "survivorsTotal": 0 }),
    );
    let expected = json!({ "client": "tmux", "evidence": "command", "isMeantToGoOn": true });
    assert_fields(&delegated(&document)[0], &expected);
    tmux.tell(&["has-session", "-t", "second"])
        .expect("it is nobody's to be ended");
}

/// The other way round: a server that the tree itself has started is of the tree.
#[test]
fn a_tmux_that_the_tree_has_started_ends_with_it() {
    let stage = Stage::new();
    let tmux = Tmux {
        socket: stage.path("tmux-0"),
    };
    if Command::new("tmux").arg("-V").output().is_err() {
        skipped();
        return;
    }
    let words = tmux.words("only");
    let (finished, document) = run_json(&stage, &[], &words);
    finished.assert_code(0);
    assert_eq!(document["treeSettlement"], "reaped", "{document:#}");
    assert!(
        tmux.tell(&["list-sessions"]).is_none(),
        "nothing of it is left"
    );
}
