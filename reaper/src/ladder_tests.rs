//! Every stage of the ladder meets every event, and random histories meet its promises.

use super::*;
use proptest::prelude::*;
use std::format;

const TERM: i32 = 15;
const INT: i32 = 2;

fn polite() -> StopPlan {
    StopPlan {
        rungs: vec![
            Rung {
                signal: INT,
                wait_ms: 200,
            },
            Rung {
                signal: TERM,
                wait_ms: 100,
            },
        ],
        kill_ms: 500,
    }
}

fn ladder(descendants: Descendants) -> Ladder {
    Ladder::new(descendants, 50)
}

fn stopping() -> Ladder {
    ladder(Descendants::Stop(polite()))
}

/// Feeds events at their times, and collects what is to be done.
fn play(ladder: &mut Ladder, events: &[(Millis, Event)]) -> Vec<Effect> {
    events
        .iter()
        .flat_map(|(at, event)| ladder.step(event.clone(), *at).expect("a legal history"))
        .collect()
}

#[test]
fn a_command_that_leaves_nothing_ends_at_once() {
    let mut ladder = stopping();
    assert_eq!(ladder.deadline(), None);
    let effects = play(
        &mut ladder,
        &[(1000, Event::RootExited), (1000, Event::Empty)],
    );
    assert_eq!(effects, [Effect::FinishEmpty]);
    assert_eq!(ladder.deadline(), None);
}

#[test]
fn others_may_end_by_themselves_within_the_settle_time() {
    let mut ladder = stopping();
    assert_eq!(play(&mut ladder, &[(1000, Event::RootExited)]), []);
    assert_eq!(ladder.deadline(), Some(1050));
    let events = [
        (1049, Event::Tick),
        (1049, Event::OthersExited),
        (1049, Event::Empty),
    ];
    assert_eq!(play(&mut ladder, &events), [Effect::FinishEmpty]);
}

#[test]
fn survivors_are_named_then_stopped_rung_by_rung() {
    let mut ladder = stopping();
    play(&mut ladder, &[(1000, Event::RootExited)]);
    let named = play(&mut ladder, &[(1050, Event::Tick)]);
    assert_eq!(named, [Effect::NameSurvivors, Effect::Signal(INT)]);
    assert_eq!(ladder.deadline(), Some(1250));
    assert_eq!(play(&mut ladder, &[(1249, Event::Tick)]), []);
    assert_eq!(
        play(&mut ladder, &[(1250, Event::Tick)]),
        [Effect::Signal(TERM)]
    );
    assert_eq!(play(&mut ladder, &[(1350, Event::Tick)]), [Effect::Kill]);
    assert_eq!(ladder.deadline(), Some(1350 + STALL_MS));
    assert_eq!(
        play(&mut ladder, &[(1360, Event::OthersExited)]),
        [Effect::Sweep]
    );
    assert_eq!(
        play(&mut ladder, &[(1361, Event::Empty)]),
        [Effect::FinishEmpty]
    );
}

#[test]
fn survivors_may_be_waited_for() {
    let mut ladder = ladder(Descendants::Wait);
    play(&mut ladder, &[(1000, Event::RootExited)]);
    assert_eq!(
        play(&mut ladder, &[(1050, Event::Tick)]),
        [Effect::NameSurvivors]
    );
    assert_eq!(ladder.deadline(), None, "waiting needs no clock");
    assert_eq!(play(&mut ladder, &[(90_000, Event::OthersExited)]), []);
    let stopped = play(&mut ladder, &[(91_000, Event::Stop(polite()))]);
    assert_eq!(stopped, [Effect::Signal(INT)]);
}

#[test]
fn what_cannot_be_killed_is_given_up_at_the_end_of_its_time() {
    let mut ladder = stopping();
    let kill = StopPlan::kill(500);
    assert_eq!(play(&mut ladder, &[(0, Event::Stop(kill))]), [Effect::Kill]);
    let mut looks = Vec::new();
    let end = loop {
        let now = ladder.deadline().expect("killing has a deadline");
        match play(&mut ladder, &[(now, Event::Tick)])[..] {
            [Effect::SweepDeep] => looks.push(now),
            [Effect::FinishRemains] => break now,
            ref other => panic!("unexpected {other:?}"),
        }
    };
    assert_eq!(looks, [50, 150, 350], "pauses double");
    assert_eq!(end, 500);
    assert_eq!(ladder.deadline(), None);
}

#[test]
fn what_refuses_to_be_killed_is_given_up_at_once() {
    let mut ladder = stopping();
    let events = [
        (0, Event::Stop(StopPlan::kill(5000))),
        (50, Event::Tick),
        (50, Event::AllRefused),
    ];
    let expected = [Effect::Kill, Effect::SweepDeep, Effect::FinishRemains];
    assert_eq!(play(&mut ladder, &events), expected);
    assert_eq!(ladder.deadline(), None);
    // Before the killing part it says nothing: a polite signal may still be heard.
    let mut ladder = stopping();
    let events = [(0, Event::Stop(polite())), (10, Event::AllRefused)];
    assert_eq!(play(&mut ladder, &events), [Effect::Signal(INT)]);
    assert!(ladder.deadline().is_some());
}

#[test]
fn progress_makes_the_looks_frequent_again() {
    let mut ladder = stopping();
    let events = [
        (0, Event::Stop(StopPlan::kill(5000))),
        (50, Event::Tick),
        (150, Event::Tick),
    ];
    play(&mut ladder, &events);
    assert_eq!(ladder.deadline(), Some(350));
    assert_eq!(
        play(&mut ladder, &[(200, Event::RootExited)]),
        [Effect::Sweep]
    );
    assert_eq!(ladder.deadline(), Some(250));
}

#[test]
fn only_a_quicker_plan_replaces_a_running_one() {
    let climbing = || {
        let mut ladder = stopping();
        play(&mut ladder, &[(0, Event::Stop(polite()))]);
        ladder
    };
    let slow = StopPlan {
        rungs: vec![Rung {
            signal: TERM,
            wait_ms: 300,
        }],
        kill_ms: 1,
    };
    assert_eq!(play(&mut climbing(), &[(0, Event::Stop(slow.clone()))]), []);
    let quick = StopPlan {
        rungs: vec![Rung {
            signal: TERM,
            wait_ms: 299,
        }],
        kill_ms: 1,
    };
    let effects = play(&mut climbing(), &[(0, Event::Stop(quick.clone()))]);
    assert_eq!(effects, [Effect::Signal(TERM)]);
    assert_eq!(
        play(&mut climbing(), &[(1, Event::Stop(quick))]),
        [],
        "299 ms are left as well"
    );
    let kill = StopPlan::kill(1000);
    let mut ladder = climbing();
    assert_eq!(
        play(&mut ladder, &[(10, Event::Stop(kill.clone()))]),
        [Effect::Kill]
    );
    assert_eq!(
        play(&mut ladder, &[(11, Event::Stop(kill))]),
        [],
        "killing is not begun again"
    );
}

/// One machine in each stage, and whether its root lives there.
fn stages() -> Vec<(&'static str, Ladder)> {
    let kill = Event::Stop(StopPlan::kill(500));
    let climb = Event::Stop(polite());
    let after = |first: Ladder, events: &[(Millis, Event)]| {
        let mut ladder = first;
        play(&mut ladder, events);
        ladder
    };
    let exited = (0, Event::RootExited);
    vec![
        ("running", stopping()),
        (
            "settling",
            after(stopping(), core::slice::from_ref(&exited)),
        ),
        (
            "waiting",
            after(
                ladder(Descendants::Wait),
                &[exited.clone(), (50, Event::Tick)],
            ),
        ),
        (
            "climbing, root lives",
            after(stopping(), &[(0, climb.clone())]),
        ),
        (
            "climbing, root gone",
            after(stopping(), &[(0, climb), exited.clone()]),
        ),
        (
            "killing, root lives",
            after(stopping(), &[(0, kill.clone())]),
        ),
        (
            "killing, root gone",
            after(stopping(), &[(0, kill.clone()), exited.clone()]),
        ),
        (
            "done, empty",
            after(stopping(), &[exited, (0, Event::Empty)]),
        ),
        (
            "done, remains",
            after(stopping(), &[(0, kill), (500, Event::Tick)]),
        ),
    ]
}

#[test]
fn every_stage_answers_every_event() {
    let table = [
        // stage, root exited, others exited, empty, stop, tick at the very start
        ("running", "[]", "[]", "illegal", "[Kill]", "[]"),
        ("settling", "illegal", "[]", "[FinishEmpty]", "[Kill]", "[]"),
        ("waiting", "illegal", "[]", "[FinishEmpty]", "[Kill]", "[]"),
        (
            "climbing, root lives",
            "[]",
            "[]",
            "illegal",
            "[Kill]",
            "[]",
        ),
        (
            "climbing, root gone",
            "illegal",
            "[]",
            "[FinishEmpty]",
            "[Kill]",
            "[]",
        ),
        (
            "killing, root lives",
            "[Sweep]",
            "[Sweep]",
            "illegal",
            "[]",
            "[]",
        ),
        (
            "killing, root gone",
            "illegal",
            "[Sweep]",
            "[FinishEmpty]",
            "[]",
            "[]",
        ),
        ("done, empty", "illegal", "illegal", "illegal", "[]", "[]"),
        ("done, remains", "illegal", "illegal", "illegal", "[]", "[]"),
    ];
    for ((name, ladder), row) in stages().into_iter().zip(table) {
        assert_eq!(name, row.0);
        let answer = |event: Event| match ladder.clone().step(event, 0) {
            Ok(effects) => format!("{effects:?}"),
            Err(Illegal) => "illegal".into(),
        };
        assert_eq!(answer(Event::RootExited), row.1, "{name}: root exited");
        assert_eq!(answer(Event::OthersExited), row.2, "{name}: others exited");
        assert_eq!(answer(Event::Empty), row.3, "{name}: empty");
        assert_eq!(
            answer(Event::Stop(StopPlan::kill(9))),
            row.4,
            "{name}: stop"
        );
        assert_eq!(answer(Event::Tick), row.5, "{name}: tick");
    }
}

fn plans() -> impl Strategy<Value = StopPlan> {
    let rung = (1i32..=31, 0u32..400).prop_map(|(signal, wait_ms)| Rung { signal, wait_ms });
    (proptest::collection::vec(rung, 0..4), 0u32..600)
        .prop_map(|(rungs, kill_ms)| StopPlan { rungs, kill_ms })
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => Just(Event::RootExited),
        3 => Just(Event::OthersExited),
        1 => Just(Event::Empty),
        1 => Just(Event::AllRefused),
        2 => plans().prop_map(Event::Stop),
        6 => Just(Event::Tick),
    ]
}

proptest! {
    /// Whatever happens, a machine that was asked to stop comes to its end by its own deadlines
    /// alone, after every rung and the killing part, and never later.
    #[test]
    fn a_stop_always_ends(plan in plans(), settle_ms in 0u32..100) {
        let mut ladder = Ladder::new(Descendants::Stop(plan.clone()), settle_ms);
        let mut effects = ladder.step(Event::RootExited, 0).expect("legal");
        let mut now = 0;
        while let Some(deadline) = ladder.deadline() {
            now = now.max(deadline);
            effects.extend(ladder.step(Event::Tick, now).expect("legal"));
        }
        let rungs = plan.rungs.iter().map(|rung| Effect::Signal(rung.signal));
        let mut expected: Vec<_> = core::iter::once(Effect::NameSurvivors).chain(rungs).collect();
        expected.push(Effect::Kill);
        effects.retain(|effect| *effect != Effect::SweepDeep);
        prop_assert_eq!(effects.pop(), Some(Effect::FinishRemains));
        prop_assert_eq!(effects, expected);
        let whole = polite_ms(&plan.rungs) + Millis::from(settle_ms) + Millis::from(plan.kill_ms);
        prop_assert_eq!(now, whole);
    }

    /// In any history: one end at most and nothing after it, no empty tree with a living root, a
    /// deadline that never lies in the past once its tick was taken, and killing never undone.
    #[test]
    fn promises_hold_in_any_history(
        wait in any::<bool>(),
        own in plans(),
        history in proptest::collection::vec((events(), 0u64..300), 0..40),
    ) {
        let descendants = if wait { Descendants::Wait } else { Descendants::Stop(own) };
        let mut ladder = Ladder::new(descendants, 50);
        let (mut now, mut ends, mut killing, mut root_alive) = (0, 0, false, true);
        for (event, pause) in history {
            now += pause;
            let before = ladder.clone();
            match ladder.step(event.clone(), now) {
                Err(Illegal) => {
                    let is_wrong = matches!(
                        event, Event::RootExited | Event::OthersExited | Event::Empty
                    );
                    prop_assert!(is_wrong, "{:?} is never illegal", event);
                }
                Ok(effects) => {
                    if event == Event::RootExited {
                        prop_assert!(root_alive);
                        root_alive = false;
                    }
                    for effect in effects {
                        prop_assert_eq!(ends, 0, "{:?} after the end", effect);
                        match effect {
                            Effect::FinishEmpty => { prop_assert!(!root_alive); ends += 1; }
                            Effect::FinishRemains => ends += 1,
                            Effect::Kill => { prop_assert!(!killing); killing = true; }
                            Effect::Signal(_) | Effect::NameSurvivors => prop_assert!(!killing),
                            Effect::Sweep | Effect::SweepDeep => prop_assert!(killing),
                        }
                    }
                    if event == Event::Tick
                        && let Some(deadline) = ladder.deadline()
                        && !matches!(before.stage, Stage::Climbing { .. } | Stage::Settling { .. })
                    {
                        prop_assert!(deadline >= now, "{} is past at {}", deadline, now);
                    }
                }
            }
        }
    }
}
