//! What the command finds when it is started by hand, whatever the shell before it has left open.

use xioflow_kit::{Stage, each_user};

use crate::{run, text};

/// Runs a line of shell in which `$0` is the command line under test and `$1` the fixture.
fn by_shell(stage: &Stage, line: &str) -> xioflow_kit::Finished {
    let (xioflow, fixture) = (stage.program("xioflow"), stage.fixture());
    stage
        .run("/bin/sh")
        .args(["-c", line, text(&xioflow), text(&fixture)])
        .finish()
}

#[test]
fn it_has_three_descriptors_whatever_we_have_inherited() {
    each_user(|stage| {
        let line = "exec 5</dev/null 9</dev/zero; \"$0\" run -- \"$1\" fds";
        let finished = by_shell(stage, line);
        finished.assert_code(0);
        let report = String::from_utf8_lossy(&finished.stdout);
        let numbers: Vec<_> = report
            .lines()
            .filter_map(|line| line.split(' ').next())
            .collect();
        assert_eq!(numbers, ["0", "1", "2"], "{finished}");
    });
}

#[test]
fn it_ignores_and_blocks_no_signal_whatever_we_have_inherited() {
    let stage = Stage::new();
    let line = "exec env --ignore-signal=PIPE,QUIT,USR1 --block-signal=USR2 \
                \"$0\" run -- cat /proc/self/status";
    let finished = by_shell(&stage, line);
    finished.assert_code(0);
    let report = String::from_utf8_lossy(&finished.stdout);
    for name in ["SigBlk", "SigIgn", "SigCgt"] {
        let line = format!("{name}:\t0000000000000000");
        assert!(
            report.lines().any(|found| found == line),
            "{name} in {finished}"
        );
    }
}

#[test]
fn it_leads_its_own_session() {
    let stage = Stage::new();
    let program = stage.fixture();
    let finished = run(&stage, &[], &[text(&program), "status"]).finish();
    let report = String::from_utf8_lossy(&finished.stdout).into_owned();
    let field = |name: &str| {
        let line = report.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {finished}"))
            .trim()
            .to_owned()
    };
    assert_eq!(
        (field("Session:"), field("Group:")),
        (field("Pid:"), field("Pid:"))
    );
    assert_eq!(field("Terminal:"), "no");
}

#[test]
fn it_keeps_our_file_mode_mask() {
    each_user(|stage| {
        let finished = by_shell(stage, "umask 0027; exec \"$0\" run -- \"$1\" umask");
        finished.assert_code(0).assert_stdout("0027\n");
    });
}

#[test]
fn it_runs_where_our_own_descriptors_are_closed() {
    each_user(|stage| {
        let trace = stage.path("trace");
        let line = format!(
            "\"$0\" run -- \"$1\" append-line {} <&- >&- 2>&-",
            text(&trace)
        );
        by_shell(stage, &line).assert_code(0);
        assert!(trace.exists());
        std::fs::remove_file(&trace).expect("a file of the stage");
    });
}

#[test]
fn a_broken_pipe_ends_it_whatever_signals_we_have_inherited() {
    let stage = Stage::new();
    let line = "exec env --ignore-signal=PIPE --block-signal=TERM \"$0\" run -- \
                sh -c '{ yes; echo $? >status; } | head -n 1 >/dev/null'";
    by_shell(&stage, line).assert_code(0);
    let status = std::fs::read_to_string(stage.path("status")).expect("the status of yes");
    assert_eq!(status, "141\n");
}
