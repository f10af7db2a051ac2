//! Fork bombs that never rest, as an ordinary user: ended in the time that a product gives them, and
//! nothing is left.

use std::env;

use xioflow_kit::{Deadline, Holder, Order, Stage, wait};
use xioflow_protocol::{Reply, Request, ResourceLimit, StopPlan};

use crate::until_last;

/// How often each bomb is ended; the promise is about 20 times.
const ROUNDS: u32 = 2;

/// How many processes a bomb has. All of them run, and two processors are a common number.
const LIMIT: u32 = 500;

/// What the product gives SIGKILL.
const KILL_MS: u32 = 5_000;

/// `RLIMIT_NPROC` of setrlimit(2).
const NPROC: u32 = 6;

fn number(variable: &str, default: u32) -> u32 {
    match env::var(variable) {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => default,
    }
}

/// Ends a bomb that has come to its limit of processes, and says what the helper says then.
fn end_bomb(limit: u32, words: &[&str]) -> Reply {
    let stage = Stage::ordinary();
    let ready = stage.path("ready");
    let ready_text = ready.to_str().expect("an ASCII path");
    let common = ["--ttl", "40", "--ready", ready_text, "endless-bomb"];
    let mut order = Order::fixture(&stage, &[&common, words].concat());
    order.launch.limits = vec![ResourceLimit {
        resource: NPROC,
        soft: limit.into(),
        hard: limit.into(),
    }];
    let mut holder = Holder::start(&stage);
    holder.run(&order);
    wait::file(&ready, Deadline::usual());
    holder.send(&Request::Stop(StopPlan::kill(KILL_MS)));
    let last = until_last(&mut holder).pop().expect("a last word");
    let living = stage.living();
    let left: Vec<_> = living.iter().filter(|it| it.contains("bomb")).collect();
    assert!(left.is_empty(), "{last:?}, and alive: {left:?}");
    last
}

#[test]
fn a_bomb_at_its_limit_is_ended_in_time() {
    let limit = number("XIOFLOW_TEST_PROCESSES", LIMIT);
    for _ in 0..number("XIOFLOW_TEST_ROUNDS", ROUNDS) {
        // In one group, and with a session for each: no signal reaches more than one of those.
        for words in [&[][..], &["new-session"]] {
            let last = end_bomb(limit, words);
            assert!(matches!(last, Reply::TreeEmpty(_)), "{words:?}: {last:?}");
        }
    }
}
