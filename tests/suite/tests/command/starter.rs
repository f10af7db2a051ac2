//! An arbiter serves everybody: what limits whoever happened to start it does not limit the others.

use xioflow_kit::Stage;

/// More than the soft limits below allow.
const FLOOD_BYTES: usize = 3_000_000;

#[test]
fn a_soft_limit_of_the_starter_is_his_alone() {
    for stage in [Stage::new(), Stage::ordinary()] {
        // 512-byte blocks, as POSIX has it.
        let script = "ulimit -S -f 8; exec \"$0\" run -- sh -c 'ulimit -S -f'";
        let limited = stage.run("/bin/sh").args(["-c", script]);
        let limited = limited.arg(stage.program("xioflow")).finish();
        limited.assert_code(0).assert_stdout("8\n");
        let flood = format!("head -c {FLOOD_BYTES} /dev/zero; ulimit -S -f");
        let free = ["run", "--op", "flood", "--", "sh", "-c", &flood];
        let free = stage.xioflow().args(free).finish();
        free.assert_code(0);
        assert_eq!(free.stdout.len(), FLOOD_BYTES + "unlimited\n".len());
        let stored = stage.xioflow().args(["logs", "flood"]).finish();
        stored.assert_code(0).assert_stdout(&free.stdout);
    }
}

#[test]
fn a_hard_limit_that_cannot_be_lifted_is_told_and_uses_up_no_id() {
    let stage = Stage::ordinary();
    let script = "ulimit -f 8000; exec \"$0\" run -- true";
    let limited = stage.run("/bin/sh").args(["-c", script]);
    limited
        .arg(stage.program("xioflow"))
        .finish()
        .assert_code(0);
    let asked = || stage.xioflow().args(["run", "--op", "mine", "--", "true"]);
    let refused = asked().finish();
    refused.assert_code(73).assert_complains("RLIMIT_FSIZE");
    refused.assert_complains("xioflow shutdown");
    stage
        .xioflow()
        .args(["show", "mine"])
        .finish()
        .assert_code(1);
    stage.xioflow().arg("shutdown").finish().assert_code(0);
    asked().finish().assert_code(0);
}

/// Also one that is of no use to the arbiter itself.
#[test]
fn a_limit_that_only_commands_need_is_told_as_well() {
    let stage = Stage::ordinary();
    let with_stack = |kib: &str| {
        let script = "ulimit -s \"$1\"; exec \"$0\" run --op stack -- sh -c 'ulimit -H -s'";
        let shell = stage.run("/bin/sh").args(["-c", script]);
        shell.arg(stage.program("xioflow")).arg(kib).finish()
    };
    with_stack("4096").assert_code(0).assert_stdout("4096\n");
    let script = "ulimit -s 8192; exec \"$0\" run --op more -- true";
    let more = stage.run("/bin/sh").args(["-c", script]);
    let refused = more.arg(stage.program("xioflow")).finish();
    refused.assert_code(73).assert_complains("RLIMIT_STACK");
    let unknown = stage.xioflow().args(["show", "more"]).finish();
    unknown.assert_code(1);
}

#[test]
fn a_nice_starter_does_not_slow_the_others() {
    let stage = Stage::ordinary();
    let script = "exec nice -n 5 \"$0\" run -- nice";
    let nice = stage.run("/bin/sh").args(["-c", script]);
    let nice = nice.arg(stage.program("xioflow")).finish();
    nice.assert_code(0).assert_stdout("5\n");
    let refused = stage.xioflow().args(["run", "--", "nice"]).finish();
    refused.assert_code(73).assert_complains("nice value");
}
