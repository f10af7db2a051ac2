//! What all operations of a domain may take together: they wait in their order, and whoever can never have it is told.

use std::fs;

use xioflow_kernel::journal::Query;
use xioflow_kernel::{Domain, DomainOptions, ExecuteError, OperationBuilder};
use xioflow_kit::{Deadline, Stage, wait};

use crate::{open_with, shell, text, traced};

const MIB: u64 = 1 << 20;

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
