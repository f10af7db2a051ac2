//! A tree whose pid namespace is recorded with it: the init of that says whether anybody is left.

use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};

use xioflow_kernel::journal::{AdjudicationVerdict, Outcome, Reader, TerminationReason};
use xioflow_kernel::{
    AdjudicateError, Driver, First, ProcessIdentity, Scope, TreeNamespace, Verdict,
    preview_recovery,
};
use xioflow_kit::{Deadline, Stage, namespace, running_as_root, wait};

use crate::left::{ID, Left, Legacy, gone, identity_of};
use crate::stop::end;
use crate::{assert_free, decision, is_over, open, result};

/// A namespace with somebody in it who has left its session, and its init; none where it cannot be made.
struct Namespace {
    maker: Child,
    init: ProcessIdentity,
    inode: u64,
}

impl Namespace {
    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    fn new(stage: &Stage) -> Option<Self> {
        if !running_as_root() {
            eprintln!("skipped: needs root, and a pid namespace of its own");
            return None;
        }
        let ready = stage.path("ready");
        let script = "setsid sleep 120 & : > $0; exec sleep 120";
        let maker = Command::new("/usr/bin/unshare")
            .args(["--pid", "--fork", "sh", "-c", script])
            .arg(&ready)
            .env_clear()
            .envs(stage.environment())
            .stdin(Stdio::null())
            .spawn()
            .expect("unshare runs");
        wait::file(&ready, Deadline::usual());
        let list = format!("/proc/{0}/task/{0}/children", maker.id());
        let children = std::fs::read_to_string(list).expect("a list of children");
        let init = children.trim().parse().expect("one child");
        let inode = std::fs::metadata(format!("/proc/{init}/ns/pid")).expect("it lives");
        let inode = inode.ino();
        assert!(
            namespace::members(inode).len() >= 2,
            "one has left the session"
        );
        Some(Self {
            maker,
            init: identity_of(init),
            inode,
        })
    }

    /// Nobody is left in it. Its maker waits for the init.
    fn finish(mut self) {
        self.maker.wait().expect("a child");
        assert_eq!(namespace::members(self.inode), [0; 0]);
    }
}

/// A command that is gone, in the namespace of this init.
fn root_below(init: &ProcessIdentity) -> ProcessIdentity {
    ProcessIdentity {
        pid_namespace: Some(TreeNamespace {
            init: Box::new(init.clone()),
            inode: 1,
            user_namespace: false,
        }),
        ..gone()
    }
}

fn leave(stage: &Stage, init: &ProcessIdentity, outcome: Option<Outcome>) {
    let left = Left {
        outcome,
        ..Left::with_root(&root_below(init))
    };
    Legacy::of(left).leave(stage);
}

#[test]
fn a_namespace_that_is_gone_frees_what_it_held_and_tells_no_exit() {
    let stage = Stage::new();
    leave(&stage, &gone(), None);
    let domain = open(&stage);
    let decided = decision(&domain);
    assert_eq!((decided.case, decided.verdict), ('S', Verdict::MarkedDead));
    assert_eq!(decided.signalled, [0; 0]);
    let result = result(&domain, ID);
    assert_eq!(result.status, Outcome::Failed);
    let unseen = Some(TerminationReason::ExitUnobserved);
    assert_eq!(result.termination_reason, unseen);
    assert_eq!((result.exit_code, result.signal.as_deref()), (None, None));
    assert_eq!(
        (result.scope, result.driver),
        (Scope::PidNamespace, Some(Driver::PidNamespace))
    );
    assert_free(&stage, &domain);
}

/// Whoever has the number of the init now is a stranger.
#[test]
fn a_stranger_with_the_number_of_the_init_is_no_init() {
    let stage = Stage::new();
    let mut stranger = Command::new("sleep")
        .arg("120")
        .spawn()
        .expect("sleep runs");
    let reused = ProcessIdentity {
        start_ticks: 1,
        ..identity_of(stranger.id())
    };
    leave(&stage, &reused, None);
    let domain = open(&stage);
    assert_eq!(decision(&domain).case, 'S');
    assert!(wait::is_alive(stranger.id()));
    end(stranger.id());
    stranger.wait().expect("a child");
}

#[test]
fn an_init_without_a_helper_is_ended_and_everybody_with_it() {
    let stage = Stage::new();
    let Some(made) = Namespace::new(&stage) else {
        return;
    };
    leave(&stage, &made.init, None);
    let reader = Reader::open(stage.domain()).expect("a domain");
    let preview = preview_recovery(&reader, &stage.domain()).expect("readable");
    let foreseen = (preview[0].case, preview[0].first);
    assert_eq!(foreseen, ('S', Some(First::WaitForHelper)));
    assert!(wait::is_alive(made.init.pid));
    drop(reader);
    let domain = open(&stage);
    assert_eq!(decision(&domain).case, 'S');
    assert_eq!(decision(&domain).signalled, [made.init.pid]);
    made.finish();
    assert_free(&stage, &domain);
}

/// What else is not known of it does not matter once nobody can be left.
#[test]
fn an_end_can_be_confirmed_as_soon_as_the_namespace_is_gone_and_no_sooner() {
    let stage = Stage::new();
    let Some(made) = Namespace::new(&stage) else {
        return;
    };
    leave(&stage, &made.init, Some(Outcome::Indeterminate));
    let domain = open(&stage);
    let stopped = AdjudicationVerdict::ConfirmedStopped;
    let refused = domain.adjudicate(ID, stopped, "ada", None);
    let Err(AdjudicateError::StillAlive { processes, .. }) = &refused else {
        panic!("{refused:?}");
    };
    assert!(
        processes.iter().any(|it| it.pid == made.init.pid),
        "{processes:?}"
    );
    end(made.init.pid);
    assert!(is_over(made.init.pid));
    made.finish();
    domain
        .adjudicate(ID, stopped, "ada", None)
        .expect("nobody is left");
    assert_free(&stage, &domain);
}
