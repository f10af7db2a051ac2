//! Where limits meet the host: whether they can be enforced here, and the group of an operation, made with them.

use xioflow_cgroup::{Controller, Controllers, Limits};

use super::counted::leaf_limits;
use super::plan::{Capable, Lacking, plan};
use crate::domain::Inner;
use crate::driver::{Driver, GroupUse};
use crate::error::ExecuteError;
use crate::groups::GroupRefused;
use crate::limits::{Enforcement, ResourceLimits};
use crate::operation::Spec;
use crate::operation::group::HeldGroup;

/// Refuses limits that cannot be enforced as they are asked for. Nothing was waited for by then, and nothing is made.
pub(in crate::operation) fn admissible(inner: &Inner, spec: &Spec) -> Result<(), ExecuteError> {
    let Some(limits) = &spec.limits else {
        return Ok(());
    };
    let has = capable(inner, spec.command.driver, limits);
    match plan(limits, has.as_ref().ok().copied()) {
        Ok(_) => Ok(()),
        Err(lacking) => {
            let why = has.err().unwrap_or_else(|| lacks_controllers(inner));
            Err(refused(lacking, why))
        }
    }
}

/// What a group of the operation can do here, or why it has none.
fn capable(
    inner: &Inner,
    driver: Driver,
    limits: &ResourceLimits,
) -> Result<Capable, GroupRefused> {
    let is_hard = limits.enforcement == Enforcement::Hard;
    match driver.group() {
        GroupUse::None => {
            let problem = "the driver that was asked for has none";
            return Err(no_group(problem, "leave out `--driver reaper`"));
        }
        GroupUse::WhereThereIs if !is_hard && !inner.groups.are_offered() => {
            let why = inner.groups.root().err();
            let unasked = || {
                no_group(
                    "none is made here unless it is asked for",
                    "add `--driver cgroup`",
                )
            };
            return Err(why.unwrap_or_else(unasked));
        }
        GroupUse::WhereThereIs | GroupUse::Required => {}
    }
    let root = inner.groups.root()?;
    let has = root.available().unwrap_or(Controllers::NONE);
    Ok(Capable {
        memory: has.contains(Controller::Memory),
        pids: has.contains(Controller::Pids),
        cpu: has.contains(Controller::Cpu),
    })
}

fn no_group(problem: &str, remedy: &str) -> GroupRefused {
    GroupRefused {
        problem: problem.to_owned(),
        remedy: Some(remedy.to_owned()),
        of_arbiter: false,
    }
}

fn lacks_controllers(inner: &Inner) -> GroupRefused {
    match inner.groups.root() {
        Ok(root) => GroupRefused {
            problem: format!("{} cannot hand that on", root.directory().display()),
            remedy: root.delegation().verdict.remedy().map(str::to_owned),
            of_arbiter: false,
        },
        Err(refused) => refused,
    }
}

/// The refusal of a limit.
fn refused(lacking: Lacking, why: GroupRefused) -> ExecuteError {
    let Lacking { limit, needs } = lacking;
    let otherwise = "or have it watched with `--limits soft`, or run it without that limit";
    ExecuteError::LimitsRefused {
        limit,
        why: format!("it needs {needs}: {}", why.problem),
        remedy: match why.remedy {
            Some(remedy) => format!("{remedy}; {otherwise}"),
            None => otherwise.trim_start_matches("or ").to_owned(),
        },
    }
}

/// The group that an operation is to be launched in.
pub(in crate::operation) struct Placed {
    pub(in crate::operation) group: Option<HeldGroup>,
    /// Whether it may be launched without it, where the helper cannot use it.
    pub(in crate::operation) may_do_without: bool,
}

/// Makes the group of an operation, where it is to have one, with its limits in it.
pub(in crate::operation) fn make_group(inner: &Inner, spec: &Spec) -> Result<Placed, ExecuteError> {
    let driver = spec.command.driver.group();
    match &spec.limits {
        Some(limits) if limits.enforcement == Enforcement::Hard => {
            let group = HeldGroup::make(inner, GroupUse::Required, &leaf_limits(limits));
            Ok(Placed {
                group: group.map_err(|error| of_limits(error, limits))?,
                may_do_without: false,
            })
        }
        Some(limits) if limits.enforcement == Enforcement::Soft => soft_group(inner, spec, limits),
        _ => Ok(Placed {
            group: HeldGroup::make(inner, driver, &Limits::default())?,
            may_do_without: driver != GroupUse::Required,
        }),
    }
}

/// What the kernel can tell is asked of it; where it does not let itself be asked, processes are looked at.
fn soft_group(inner: &Inner, spec: &Spec, limits: &ResourceLimits) -> Result<Placed, ExecuteError> {
    let driver = spec.command.driver.group();
    let has = capable(inner, spec.command.driver, limits).unwrap_or_default();
    let wanted = leaf_limits(limits);
    let wanted = Limits {
        memory_high_bytes: wanted.memory_high_bytes.filter(|_| has.memory),
        pids_max: wanted.pids_max.filter(|_| has.pids),
        ..wanted
    };
    // Nobody can be watched for it.
    let must_have = limits.milli_cpus.is_some();
    let made = match HeldGroup::make(inner, driver, &wanted) {
        Err(ExecuteError::GroupRefused(_)) if !must_have => {
            HeldGroup::make(inner, driver, &Limits::default())
        }
        made => made,
    };
    Ok(Placed {
        group: made.map_err(|error| of_limits(error, limits))?,
        may_do_without: driver != GroupUse::Required && !must_have,
    })
}

/// A group that was refused although the limits need it.
fn of_limits(error: ExecuteError, limits: &ResourceLimits) -> ExecuteError {
    match (error, plan(limits, None)) {
        (ExecuteError::GroupRefused(why), Err(lacking)) => refused(lacking, why),
        (error, _) => error,
    }
}
