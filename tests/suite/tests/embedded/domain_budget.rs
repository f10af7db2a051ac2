//! What all operations of a domain may take together: they wait in their order, and whoever can never have it is told.

use std::fs;
use std::thread;
use std::time::Duration;

use xioflow_kernel::journal::{AdjudicationVerdict, Outcome, Query};
use xioflow_kernel::{
    Amount, Domain, DomainOptions, Enforcement, ExecuteError, OperationBuilder, ResourceLimits,
    Shortage,
};
use xioflow_kit::{Deadline, Stage, wait};

use crate::{open_with, shell, text, times_run, traced};

const MIB: u64 = 1 << 20;

fn of_memory(stage: &Stage, mib: u64) -> Domain {
    let options = DomainOptions::default().max_total_memory_bytes(mib * MIB);
    open_with(stage, options)
}

/// One that is kept to so much memory by watching, which every host can.
fn limits(mib: u64) -> ResourceLimits {
    let limits = ResourceLimits::default().memory_bytes(mib * MIB);
    limits.enforcement(Enforcement::Soft)
}

/// A command that stays until the stage's file `gate` is there.
fn until_gate(stage: &Stage, domain: &Domain, id: &str) -> OperationBuilder {
    let (ready, gate) = (stage.path(id), stage.path("gate"));
    let script = format!(
        ": > {}; until [ -e {} ]; do :; done",
        text(&ready),
        text(&gate)
    );
    let operation = domain.operation(shell(stage, &script));
    operation.expect("a builder").id(id)
}

fn short(stage: &Stage, domain: &Domain, id: &str) -> OperationBuilder {
    let operation = domain.operation(traced(stage)).expect("a builder");
    operation.id(id)
}

fn open_gate(stage: &Stage) {
    fs::write(stage.path("gate"), "").expect("a file of the stage");
}

fn assert_unknown(domain: &Domain, id: &str) {
    assert_eq!(domain.journal().operation(id).expect("readable"), None);
}

#[test]
fn memory_limits_are_added_up_and_a_conflict_names_who_has_it() {
    let stage = Stage::new();
    let domain = of_memory(&stage, 100);
    let holder = until_gate(&stage, &domain, "holder").limits(limits(60));
    let holder = holder.start().expect("a thread");
    wait::file(&stage.path("holder"), Deadline::usual());
    let second = short(&stage, &domain, "second").limits(limits(41)).run();
    let error = second.expect_err("60 and 41 are more than 100");
    let ExecuteError::ResourceConflict {
        resource,
        holder: named,
        scarcity,
        ..
    } = &error
    else {
        panic!("{error:?}");
    };
    assert_eq!(
        (resource.as_str(), named.as_str()),
        ("domain:max_total_memory", "holder")
    );
    let expected = Shortage {
        amount: Amount::Memory,
        asked_bytes: 41 * MIB,
        free_bytes: 40 * MIB,
        max_bytes: 100 * MIB,
    };
    let scarcity = scarcity.as_deref().expect("it is an amount");
    assert_eq!(scarcity.shortage, expected);
    assert_eq!(scarcity.others, Vec::<String>::new());
    assert_unknown(&domain, "second");
    let fits = short(&stage, &domain, "fits").limits(limits(40)).run();
    assert_eq!(fits.expect("a result").exit_code, Some(0));
    let budget = domain.budget().expect("our own");
    assert_eq!(
        (budget.operations, budget.taken.memory_bytes),
        (1, 60 * MIB)
    );
    open_gate(&stage);
    holder.wait().expect("a result");
    let budget = domain.budget().expect("our own");
    assert_eq!((budget.operations, budget.taken.memory_bytes), (0, 0));
}

#[test]
fn a_large_one_waits_for_its_turn_and_is_not_overtaken() {
    let stage = Stage::new();
    let domain = of_memory(&stage, 100);
    let holder = until_gate(&stage, &domain, "holder").limits(limits(50));
    let holder = holder.start().expect("a thread");
    wait::file(&stage.path("holder"), Deadline::usual());
    thread::scope(|scope| {
        let large = short(&stage, &domain, "large").limits(limits(100));
        let large = large.wait(Duration::from_secs(600));
        let large = scope.spawn(|| large.run());
        wait::until("the large one waits", Deadline::usual(), || {
            domain.budget().expect("our own").waiting == 1
        });
        // There would be room for it.
        let small = short(&stage, &domain, "small").limits(limits(10)).run();
        let error = small.expect_err("the large one came before").to_string();
        assert!(error.contains("large, holder"), "{error}");
        open_gate(&stage);
        let large = large.join().expect("no panic").expect("a result");
        assert_eq!(large.exit_code, Some(0));
    });
    holder.wait().expect("a result");
    assert_eq!(times_run(&stage), 1);
}

#[test]
fn what_no_wait_could_give_is_refused_at_once() {
    let stage = Stage::new();
    let domain = of_memory(&stage, 100);
    let long = Duration::from_secs(600);
    let greedy = short(&stage, &domain, "greedy")
        .limits(limits(101))
        .wait(long);
    let error = greedy.run().expect_err("more than there is");
    assert!(
        matches!(error, ExecuteError::BudgetExceeded { shortage } if shortage.max_bytes == 100 * MIB),
        "{error:?}"
    );
    let observed = limits(10).enforcement(Enforcement::Observe);
    let pids = ResourceLimits::default()
        .pids(10)
        .enforcement(Enforcement::Soft);
    for limits in [None, Some(observed), Some(pids)] {
        let operation = short(&stage, &domain, "boundless").wait(long);
        let operation = match limits {
            Some(limits) => operation.limits(limits),
            None => operation,
        };
        let error = operation.run().expect_err("nobody keeps it to its part");
        assert!(
            matches!(error, ExecuteError::MemoryUnlimited { max_bytes } if max_bytes == 100 * MIB),
            "{error:?}"
        );
    }
    assert_unknown(&domain, "greedy");
    assert_unknown(&domain, "boundless");
    assert_eq!(times_run(&stage), 0);
}

/// What is left of it may use its memory, whoever owns the domain meanwhile, until somebody decides.
#[test]
fn one_that_ended_without_proof_keeps_its_memory_over_a_restart() {
    let stage = Stage::new();
    let domain = of_memory(&stage, 100);
    let unproven = until_gate(&stage, &domain, "unproven").limits(limits(60));
    let unproven = unproven.drain_timeout(Duration::from_millis(1));
    let unproven = unproven.start().expect("a thread");
    wait::file(&stage.path("unproven"), Deadline::usual());
    let held = crate::hold_stdout(&domain, "unproven");
    open_gate(&stage);
    let result = unproven.wait().expect("a result");
    assert_eq!(result.status, Outcome::Indeterminate);
    drop(held);
    let assert_kept = |domain: &Domain| {
        let next = short(&stage, domain, "next").limits(limits(41)).run();
        let error = next.expect_err("it is kept").to_string();
        assert!(error.contains("unproven"), "{error}");
    };
    assert_kept(&domain);
    drop(domain);
    let domain = of_memory(&stage, 100);
    assert_kept(&domain);
    let verdict = AdjudicationVerdict::ConfirmedStopped;
    let decided = domain.adjudicate("unproven", verdict, "ada", None);
    decided.expect("nothing of it lives");
    let next = short(&stage, &domain, "next").limits(limits(100)).run();
    assert_eq!(next.expect("a result").exit_code, Some(0));
}

#[test]
fn what_may_be_stored_is_added_up_and_has_a_usual_part() {
    let stage = Stage::new();
    let options = DomainOptions::default().max_total_output_bytes(16 * MIB);
    let domain = open_with(&stage, options);
    let usual = until_gate(&stage, &domain, "usual")
        .start()
        .expect("a thread");
    wait::file(&stage.path("usual"), Deadline::usual());
    let recorded = domain.journal().operation("usual").expect("readable");
    let budget = recorded
        .expect("it runs")
        .resource_budget
        .expect("it has one");
    assert_eq!(budget["maxStoredBytes"], MIB);
    assert_eq!(
        domain.budget().expect("our own").taken.output_bytes,
        2 * MIB
    );

    let much = |id| short(&stage, &domain, id).max_stored_bytes(7 * MIB + 1);
    let error = much("much").run().expect_err("14 MiB are free");
    let ExecuteError::ResourceConflict {
        resource, holder, ..
    } = &error
    else {
        panic!("{error:?}");
    };
    assert_eq!(
        (resource.as_str(), holder.as_str()),
        ("domain:max_total_output", "usual")
    );
    let fits = short(&stage, &domain, "fits")
        .max_stored_bytes(7 * MIB)
        .run();
    assert_eq!(fits.expect("a result").exit_code, Some(0));
    let nothing = short(&stage, &domain, "nothing").max_stored_bytes(0).run();
    assert_eq!(nothing.expect("a result").exit_code, Some(0));
    let greedy = short(&stage, &domain, "greedy")
        .max_stored_bytes(8 * MIB + 1)
        .run();
    assert!(
        matches!(greedy, Err(ExecuteError::BudgetExceeded { .. })),
        "{greedy:?}"
    );
    open_gate(&stage);
    usual.wait().expect("a result");
    assert_eq!(much("much").run().expect("a result").exit_code, Some(0));
}
