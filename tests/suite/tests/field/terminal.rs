//! Started from a terminal: the command has none, so that nothing waits for a person unseen.

use std::fs;

use xioflow_kit::{Deadline, Stage, Terminal, each_user, wait};

use crate::text;

/// Runs a line of shell on a terminal, in which `$0` is the command line under test.
fn on_terminal<'a>(stage: &'a Stage, line: &str) -> Terminal<'a> {
    let xioflow = stage.program("xioflow");
    let words = ["-c", line, text(&xioflow)];
    stage.run("sh").args(words).start_on_terminal()
}

#[test]
fn background_output_is_not_stopped_by_the_terminal() {
    each_user(|stage| {
        stage.write("listed", "", 0o600);
        let line = "stty tostop; exec \"$0\" run -- sh -c 'timeout 10 ls'";
        let (code, screen) = on_terminal(stage, line).finish();
        assert_eq!(code, Some(0), "{screen}");
        assert!(screen.contains("listed"), "{screen}");
    });
}

/// The terminal's line discipline makes a signal of the key; the command never sees either.
#[test]
fn the_interrupt_key_cancels() {
    let stage = Stage::new();
    let line = "exec \"$0\" run --grace 20s -- sh -c 'echo up; exec sleep 300'";
    let mut terminal = on_terminal(&stage, line);
    terminal.wait_for("up");
    terminal.type_in(b"\x03");
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(130), "{screen}");
    assert!(screen.contains("cancelled"), "{screen}");
}

#[test]
fn what_is_typed_reaches_a_command_that_was_given_the_terminal() {
    let stage = Stage::new();
    let line = "exec \"$0\" run --stdin inherit -- sh -c 'echo up; read line; echo got $line'";
    let mut terminal = on_terminal(&stage, line);
    terminal.wait_for("up");
    terminal.type_in(b"a line\n");
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("got a line"), "{screen}");
}

/// With a shell that has job control: the whole job stops, what is typed is the shell's, and after
/// `fg` the command gets it again.
#[test]
fn the_stop_key_stops_the_whole_job_until_it_is_continued() {
    let stage = Stage::new();
    let (xioflow, pid_file) = (stage.program("xioflow"), stage.path("pid"));
    let shell = ["--norc", "--noprofile", "--noediting", "-i"];
    let mut terminal = stage.run("bash").args(shell).start_on_terminal();
    let line = format!(
        "{} run --stdin inherit -- sh -c 'echo $$ >pid; echo u\"\"p; exec cat'\n",
        text(&xioflow)
    );
    terminal.type_in(line.as_bytes());
    terminal.wait_for("up");
    let pid = fs::read_to_string(&pid_file).expect("a pid");
    terminal.type_in(b"\x1a");
    terminal.wait_for("Stopped");
    // On a busy machine a signal that was sent still waits for its process to be scheduled.
    let deadline = Deadline::usual();
    while !is_stopped(pid.trim()) {
        assert!(!deadline.passed(), "the command runs on");
        std::thread::yield_now();
    }
    terminal.type_in(b"echo at-$((1 + 1))\n");
    terminal.wait_for("at-2");
    terminal.type_in(b"fg\n");
    terminal.wait_for("cat'");
    terminal.type_in(b"a line\n");
    // The terminal's own echo, and the command's.
    terminal.wait_for("a line");
    terminal.wait_for("a line");
    terminal.type_in(b"\x04");
    terminal.type_in(b"exit\n");
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(0), "{screen}");
    assert!(wait::pid_gone(
        pid.trim().parse().expect("a pid"),
        Deadline::usual()
    ));
}

fn is_stopped(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    stat.contains(") T ")
}
