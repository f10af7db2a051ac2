//! What is recorded: scripts for a shell, which tell the facts that must survive.
//!
//! A command that writes to `$TOLD/effect.ID` shows that it ran; what a client is answered goes to
//! `$TOLD/answer.ID`, and what `show` says of it to `$TOLD/shown.ID`. `$TOLD` is not on the disk that loses power.

/// One thing that people do with a domain.
#[derive(Debug)]
pub(crate) struct Scenario {
    /// For messages.
    pub(crate) name: &'static str,
    /// A script; `$X` is the program under test.
    pub(crate) script: &'static str,
    /// Whether what the helper writes has to be seen: it is closed to an ordinary user.
    pub(crate) needs_root: bool,
    /// An operation whose end is known for good from the moment on that its helper has ended,
    /// though nobody was told it.
    pub(crate) last_word_on: Option<&'static str>,
}

const USUAL: Scenario = Scenario {
    name: "",
    script: "",
    needs_root: false,
    last_word_on: None,
};

pub(crate) const SMALL: Scenario = Scenario {
    name: "a small operation",
    script: r#"
        "$X" run --no-arbiter --op a --json -- \
            sh -c 'echo ran > "$TOLD/effect.a"; echo out; echo err >&2; exit 3' > "$TOLD/answer.a"
        [ $? = 3 ]"#,
    ..USUAL
};

pub(crate) const SPILL: Scenario = Scenario {
    name: "stored output",
    script: r#"
        "$X" run --no-arbiter --op a --json --max-output 1KiB -- \
            sh -c 'echo ran > "$TOLD/effect.a"; seq 1 25000; seq 1 15000 >&2' > "$TOLD/answer.a""#,
    ..USUAL
};

pub(crate) const AGAIN: Scenario = Scenario {
    name: "a domain opened again",
    script: r#"
        for op in a b; do
            "$X" run --no-arbiter --op $op --json -- \
                sh -c 'echo ran > "$TOLD/effect.'$op'"; seq 1 15000' > "$TOLD/answer.$op" || exit
        done"#,
    ..USUAL
};

/// The file goes after the commit that says so.
pub(crate) const PRUNE: Scenario = Scenario {
    name: "pruned output",
    script: r#"
        "$X" run --no-arbiter --op a -- sh -c 'echo ran > "$TOLD/effect.a"; seq 1 15000' > /dev/null
        "$X" prune --max-bytes 1 --json > "$TOLD/pruned"
        "$X" shutdown
        "$X" logs a 2> "$TOLD/refused"
        [ $? = 1 ]"#,
    ..USUAL
};

pub(crate) const TIMEOUT: Scenario = Scenario {
    name: "a timeout",
    script: r#"
        "$X" run --no-arbiter --op a --json --timeout 100ms -- \
            sh -c 'echo ran > "$TOLD/effect.a"; exec sleep 60' > "$TOLD/answer.a"
        [ $? = 124 ]"#,
    ..USUAL
};

pub(crate) const ARBITER: Scenario = Scenario {
    name: "an arbiter",
    script: r#"
        mkfifo "$TOLD/../runs"
        "$X" run --op a --json -- sh -c 'echo ran > "$TOLD/effect.a"; echo out' > "$TOLD/answer.a" &
        first=$!
        "$X" run --op b --json -- sh -c 'seq 1 15000; echo ran > "$TOLD/effect.b"' > "$TOLD/answer.b"
        wait $first || exit
        "$X" run --op c --json -- \
            sh -c 'echo ran > "$TOLD/effect.c"; echo > "$TOLD/../runs"; exec sleep 60' > "$TOLD/answer.c" &
        read line < "$TOLD/../runs"
        "$X" cancel c
        wait $!
        "$X" shutdown"#,
    ..USUAL
};

/// The shell is the parent of the supervisor, so it knows whom to kill. The last word is there once
/// the domain's next owner has waited for the helper.
pub(crate) const CRASH: Scenario = Scenario {
    name: "a crash",
    script: r#"
        mkfifo "$TOLD/../runs"
        "$X" run --no-arbiter --op a --json -- \
            sh -c 'seq 1 15000; echo ran > "$TOLD/effect.a"; echo > "$TOLD/../runs"; exec sleep 60' &
        read line < "$TOLD/../runs"
        kill -9 $!
        wait $!
        "$X" run --no-arbiter --op b --json -- sh -c 'echo ran > "$TOLD/effect.b"' > "$TOLD/answer.b"
        "$X" show a --json > "$TOLD/shown.a""#,
    needs_root: true,
    last_word_on: Some("a"),
};
