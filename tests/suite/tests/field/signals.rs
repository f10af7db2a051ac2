//! Whom the programs themselves send signals, as strace(1) sees it.

use std::fs;

use xioflow_kit::{Stage, each_user, strace};

/// The system calls that send signals. A pidfd cannot mean somebody else, and names nobody by number.
const CALLS: &str = "trace=kill,tkill,tgkill,rt_sigqueueinfo,rt_tgsigqueueinfo";

/// The first argument of each call that sent a signal while `xioflow` did this, and its line.
fn targets(stage: &Stage, words: &[&str]) -> Vec<(i64, String)> {
    let trace = stage.path("trace");
    let run = stage.run("strace").args(["-f", "-qq", "-e", CALLS, "-o"]);
    let run = run.arg(&trace).arg(stage.program("xioflow"));
    run.args(["run", "--no-arbiter"]).args(words).finish();
    let text = fs::read_to_string(&trace).expect("a trace");
    let sent = text.lines().filter(|line| !line.contains("---"));
    sent.filter_map(|line| {
        let (_, arguments) = line.split_once('(')?;
        let first = arguments.split([',', ')']).next()?;
        Some((first.parse().ok()?, line.to_owned()))
    })
    .collect()
}

/// Nothing is sent to what was already waited for, and nothing ever to everybody.
#[test]
fn a_signal_goes_to_who_is_left_and_to_nobody_else() {
    if !strace::is_there() {
        eprintln!("{}", strace::MISSING);
        return;
    }
    each_user(|stage| {
        assert_eq!(targets(stage, &["--", "true"]), [], "it had ended");
        assert_eq!(targets(stage, &["--", "/nowhere"]), [], "it never began");
        let tree = "trap '' TERM; sleep 600 & setsid sleep 600 & wait; wait";
        let timeout = [
            "--timeout",
            "300ms",
            "--grace",
            "100ms",
            "--",
            "sh",
            "-c",
            tree,
        ];
        let sent = targets(stage, &timeout);
        assert!(!sent.is_empty(), "nothing was traced");
        for (target, line) in sent {
            assert!(![0, 1, -1].contains(&target), "{line}");
        }
    });
}
