//! A command has no terminal, also when this program has one: what would wait for somebody at it
//! fails at once, with the command's own words.

use std::process::Command;

use xioflow_kit::{Finished, Run, Stage, each_user};

use crate::text;

/// Runs a line of shell at a terminal of its own, with nobody at it. `$XF` is the command line
/// under test.
fn at_terminal<'a>(stage: &'a Stage, line: &str) -> Run<'a> {
    let xioflow = stage.program("xioflow");
    stage
        .run("script")
        .args(["-qec", line, "/dev/null"])
        .env("SHELL", "/bin/sh")
        .env("XF", text(&xioflow))
}

fn printed(finished: &Finished) -> String {
    // The terminal has made two characters of each line's end.
    String::from_utf8_lossy(&finished.stdout).replace("\r\n", "\n")
}

/// As `each_user`, for those whom this machine lets have a terminal.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn each_user_with_terminals(test: impl Fn(&Stage)) {
    each_user(|stage| {
        let tried = at_terminal(stage, "true").finish();
        if tried.status.success() {
            test(stage);
        } else {
            let why = String::from_utf8_lossy(&tried.stderr);
            eprintln!("skipped: needs pseudo-terminals: {}", why.trim());
        }
    });
}

#[test]
fn it_is_a_terminal_to_us() {
    let stage = Stage::new();
    let line = "test -t 0 && test -t 1 && : </dev/tty && echo at a terminal";
    let finished = at_terminal(&stage, line).finish();
    finished.assert_code(0);
    assert_eq!(printed(&finished), "at a terminal\n");
}

/// A terminal is shared by all who have it open: whoever makes it non-blocking breaks the shell.
#[test]
fn it_stays_as_it_is_for_everybody_else() {
    const NON_BLOCKING: u32 = 0o4000;
    let stage = Stage::new();
    let line = "f() { grep flags /proc/$$/fdinfo/$1; }; f 0; f 1; \
                \"$XF\" run --stdin inherit -- grep flags /proc/self/fdinfo/0; \
                \"$XF\" run -- sh -c 'echo out; echo err >&2'; f 0; f 1; f 2";
    let finished = at_terminal(&stage, line).finish();
    finished.assert_code(0);
    let printed = printed(&finished);
    let flags: Vec<u32> = printed
        .lines()
        .filter_map(|line| line.strip_prefix("flags:"))
        .map(|flags| u32::from_str_radix(flags.trim(), 8).expect("an octal number"))
        .collect();
    assert_eq!(flags.len(), 6, "{printed}");
    let blocks = |flags: &u32| flags & NON_BLOCKING == 0;
    assert!(flags.iter().all(blocks), "{printed}");
}

#[test]
fn a_prompt_that_opens_the_terminal_fails_at_once() {
    each_user_with_terminals(|stage| {
        for options in ["", "--stdin inherit", "--stdin closed"] {
            let script = "read v </dev/tty; echo rc=$?";
            let line = format!("\"$XF\" run {options} -- sh -c '{script}'");
            let finished = at_terminal(stage, &line).finish();
            finished.assert_code(0);
            let printed = printed(&finished);
            assert!(printed.contains("No such device"), "{finished}");
            assert!(
                printed.contains("rc=") && !printed.contains("rc=0"),
                "{finished}"
            );
        }
    });
}

#[test]
fn what_it_reads_and_writes_is_no_terminal_unless_asked() {
    let stage = Stage::new();
    let script = "for n in 0 1 2; do test -t $n && echo $n; done; echo end";
    let line = format!("\"$XF\" run -- sh -c '{script}'");
    let finished = at_terminal(&stage, &line).finish();
    assert_eq!(printed(&finished), "end\n");
    let line = format!("\"$XF\" run --stdin inherit -- sh -c '{script}'");
    let finished = at_terminal(&stage, &line).finish();
    assert_eq!(printed(&finished), "0\nend\n");
}

#[test]
fn input_that_nobody_gives_is_at_its_end() {
    each_user_with_terminals(|stage| {
        at_terminal(stage, "\"$XF\" run -- cat")
            .finish()
            .assert_code(0);
        let background = "\"$XF\" run -- cat & wait $!";
        at_terminal(stage, background).finish().assert_code(0);
        let background = "exec 3<&0; \"$XF\" run -- cat <&3 & wait $!";
        at_terminal(stage, background).finish().assert_code(0);
    });
}

/// A repository with this many commits; none without git.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn repository(stage: &Stage, commits: usize) -> bool {
    if Command::new("git").arg("--version").output().is_err() {
        eprintln!("skipped: needs git");
        return false;
    }
    let init = stage
        .run("git")
        .args(["init", "--quiet", "--initial-branch", "main"]);
    init.finish().assert_code(0);
    let commit = |n: usize| {
        format!("commit refs/heads/main\ncommitter A <a@example.org> {n} +0000\ndata 6\nc{n:05}\n")
    };
    let history: String = (0..commits).map(commit).collect();
    let import = stage.run("git").args(["fast-import", "--quiet"]);
    import.stdin(history).finish().assert_code(0);
    true
}

fn with_author(run: Run<'_>) -> Run<'_> {
    ["AUTHOR", "COMMITTER"].into_iter().fold(run, |run, role| {
        run.env(format!("GIT_{role}_NAME"), "A")
            .env(format!("GIT_{role}_EMAIL"), "a@example.org")
    })
}

#[test]
fn no_pager_opens() {
    each_user_with_terminals(|stage| {
        if !repository(stage, 300) {
            return;
        }
        let paged = stage.path("paged");
        let log = |prefix: &str| {
            let line = format!("{prefix} git log --format=%s");
            let pager = format!("tee {}", text(&paged));
            let finished = at_terminal(stage, &line).env("GIT_PAGER", pager).finish();
            finished.assert_code(0);
            assert_eq!(printed(&finished).lines().count(), 300, "{finished}");
            std::fs::remove_file(&paged).is_ok()
        };
        assert!(log(""), "git itself does page at a terminal");
        assert!(!log("\"$XF\" run --"), "and not under supervision");
        std::fs::remove_dir_all(stage.path(".git")).expect("a folder of the stage");
    });
}

#[test]
fn an_editor_fails_with_its_own_words() {
    each_user_with_terminals(|stage| {
        if !repository(stage, 1) {
            return;
        }
        let line = "\"$XF\" run -- git commit --allow-empty";
        let commit = || with_author(at_terminal(stage, line)).env("TERM", "dumb");
        let finished = commit().finish();
        assert!(!finished.status.success(), "{finished}");
        assert!(printed(&finished).contains("EDITOR"), "{finished}");
        // One that talks to the terminal, whatever its input is.
        let finished = commit().env("GIT_EDITOR", "read v </dev/tty #").finish();
        assert!(!finished.status.success(), "{finished}");
        assert!(printed(&finished).contains("editor"), "{finished}");
        let log = stage
            .run("git")
            .args(["rev-list", "--count", "HEAD"])
            .finish();
        log.assert_code(0).assert_stdout("1\n");
        std::fs::remove_dir_all(stage.path(".git")).expect("a folder of the stage");
    });
}
