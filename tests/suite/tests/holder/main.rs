//! The real helper, spoken to in frames: what it promises, and what it refuses.

mod account;
mod armour;
mod bombs;
mod child;
mod gate;
mod group;
mod idle;
mod launch;
mod loss;
mod namespace;
mod privileged;
mod protocol;
mod stop;
mod tree;

use xioflow_kit::{Holder, wait};
use xioflow_protocol::{
    Exit, HELPER_EXIT_OK, LaunchFailure, Reply, Rung, StopPlan, Survivor, TreeEnd,
};

/// Signal numbers of signal(7).
mod signal {
    pub(crate) const INT: i32 = 2;
    pub(crate) const KILL: i32 = 9;
    pub(crate) const TERM: i32 = 15;
}

/// The ways in which a launch can be over.
fn is_last(reply: &Reply) -> bool {
    matches!(
        reply,
        Reply::TreeEmpty(_) | Reply::TreeRemains(_) | Reply::LaunchFailed(_)
    )
}

/// Takes messages up to the last one of the launch.
fn until_last(holder: &mut Holder<'_>) -> Vec<Reply> {
    let mut replies = vec![holder.reply()];
    while !replies.last().is_some_and(is_last) {
        replies.push(holder.reply());
    }
    replies
}

/// Takes messages up to the one that names survivors.
fn until_survivors(holder: &mut Holder<'_>) {
    loop {
        match holder.reply() {
            Reply::Survivors { .. } => return,
            other => assert!(
                !is_last(&other),
                "over without a word of survivors: {other:?}"
            ),
        }
    }
}

/// Takes messages up to `TreeEmpty`, and checks that the helper ends well after it.
fn until_empty(holder: &mut Holder<'_>) -> (Vec<Reply>, TreeEnd) {
    let mut replies = until_last(holder);
    let Some(Reply::TreeEmpty(end)) = replies.pop() else {
        panic!("expected an empty tree at the end of {replies:?}");
    };
    // The helper has said its last message; it leaves when its peer does.
    holder.hang_up();
    assert_eq!(holder.wait().code(), Some(HELPER_EXIT_OK));
    (replies, end)
}

/// The failure of a launch that must fail, and what came before it.
fn until_failure(holder: &mut Holder<'_>) -> LaunchFailure {
    let replies = until_last(holder);
    match &replies[..] {
        [Reply::LaunchFailed(failure)] => failure.clone(),
        _ => panic!("expected nothing but a failed launch, got {replies:?}"),
    }
}

/// How the command itself ended.
fn root_exit(replies: &[Reply]) -> Exit {
    let exits: Vec<_> = replies
        .iter()
        .filter_map(|reply| match reply {
            Reply::RootExited { exit } => Some(*exit),
            _ => None,
        })
        .collect();
    assert_eq!(exits.len(), 1, "the command ends once: {replies:?}");
    exits[0]
}

/// The signals of the rungs that were climbed, in their order.
fn signals(replies: &[Reply]) -> Vec<i32> {
    let signal = |reply: &Reply| match reply {
        Reply::Signalled { signal, .. } => Some(*signal),
        _ => None,
    };
    replies.iter().filter_map(signal).collect()
}

fn pids_of(survivors: &[Survivor]) -> Vec<u32> {
    let mut pids: Vec<_> = survivors
        .iter()
        .map(|survivor| survivor.process.pid)
        .collect();
    pids.sort_unstable();
    pids
}

fn sorted(mut pids: Vec<u32>) -> Vec<u32> {
    pids.sort_unstable();
    pids
}

/// Checks that at this very moment none of them lives.
fn assert_all_gone(pids: &[u32]) {
    let alive: Vec<_> = pids.iter().filter(|pid| wait::is_alive(**pid)).collect();
    assert!(
        alive.is_empty(),
        "{alive:?} live after the tree was called empty"
    );
}

fn rung(signal: i32, wait_ms: u32) -> Rung {
    Rung { signal, wait_ms }
}

fn plan(rungs: &[Rung]) -> StopPlan {
    StopPlan {
        rungs: rungs.to_vec(),
        kill_ms: 10_000,
    }
}
