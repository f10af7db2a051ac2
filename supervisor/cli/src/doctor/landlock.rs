//! Landlock: the ABI is asked for, and a ruleset is opened with all of its rights.

use serde_json::{Value, json};
use xioflow_landlock::{Abi, Gap, RulesetError, Support, prove_ruleset, support};

use super::report::Finding;

/// Asks and proves. Nothing is restricted.
pub(super) fn look() -> Finding {
    let support = support();
    let proof = match support {
        Support::Available(abi) => Some(prove_ruleset(abi)),
        Support::NotBuiltIn | Support::Disabled | Support::CannotTell { .. } => None,
    };
    judge(support, proof).with_facts(facts(support, proof))
}

fn judge(support: Support, proof: Option<Result<(), RulesetError>>) -> Finding {
    match support {
        Support::Available(abi) => match proof {
            Some(Err(error)) => Finding::missing(error.to_string()),
            Some(Ok(())) | None => available(abi),
        },
        Support::NotBuiltIn => Finding::missing("the kernel has no Landlock (it came with 5.13)"),
        Support::Disabled => Finding::missing("the kernel has Landlock but left it out at boot")
            .with_remedy(Some(enable())),
        Support::CannotTell { errno } => Finding::cannot_tell(format!(
            "the kernel answered with error {errno}, as a system call filter may"
        )),
    }
}

/// A gap that lets writes through, or stops writes that should be let through, weakens what
/// confinement is for. The others are limits to know of.
fn available(abi: Abi) -> Finding {
    let gaps: Vec<_> = abi.gaps().map(|gap| gap.to_string()).collect();
    let detail = match gaps.is_empty() {
        true => format!("ABI {abi}, a ruleset opens"),
        false => format!(
            "ABI {abi}, a ruleset opens; not covered: {}",
            gaps.join("; ")
        ),
    };
    match abi
        .gaps()
        .any(|gap| gap.lets_writes_through() || gap == Gap::Rename)
    {
        true => Finding::weaker(detail),
        false => Finding::ready(detail),
    }
}

/// The modules that are on now have to be named again, so they are read.
fn enable() -> String {
    let others = std::fs::read_to_string("/sys/kernel/security/lsm");
    match others.as_deref().map(str::trim) {
        Ok(others) if !others.is_empty() => {
            format!("boot with \"lsm=landlock,{others}\" on the kernel command line")
        }
        _ => "boot with \"landlock\" in lsm= on the kernel command line".to_owned(),
    }
}

fn facts(support: Support, proof: Option<Result<(), RulesetError>>) -> Value {
    let abi = match support {
        Support::Available(abi) => Some(abi),
        Support::NotBuiltIn | Support::Disabled | Support::CannotTell { .. } => None,
    };
    json!({
        "abi": abi.map(Abi::number),
        "firstRelease": abi.and_then(Abi::first_release),
        "rulesetOpens": proof.map(|proof| proof.is_ok()),
        "gaps": abi.map(|abi| abi.gaps().map(Gap::name).collect::<Vec<_>>()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::report::{Check, Verdict};

    fn verdict(support: Support, proof: Option<Result<(), RulesetError>>) -> Verdict {
        Check::new("landlock", "Landlock", false, judge(support, proof)).verdict
    }

    #[test]
    fn old_abis_are_weaker_and_the_version_alone_proves_nothing() {
        let opened = Some(Ok(()));
        assert_eq!(
            verdict(Support::Available(Abi::V1), opened),
            Verdict::Weaker
        );
        assert_eq!(
            verdict(Support::Available(Abi::V2), opened),
            Verdict::Weaker
        );
        assert_eq!(verdict(Support::Available(Abi::V3), opened), Verdict::Ready);
        let refused = Some(Err(RulesetError {
            abi: Abi::V7,
            errno: 1,
        }));
        assert_eq!(
            verdict(Support::Available(Abi::V7), refused),
            Verdict::Missing
        );
    }

    #[test]
    fn absence_and_ignorance_are_told_apart() {
        assert_eq!(verdict(Support::NotBuiltIn, None), Verdict::Missing);
        assert_eq!(verdict(Support::Disabled, None), Verdict::Missing);
        assert_eq!(
            verdict(Support::CannotTell { errno: 1 }, None),
            Verdict::CannotTell
        );
    }

    #[test]
    fn what_was_not_asked_is_null() {
        let facts = facts(Support::NotBuiltIn, None);
        assert_eq!(facts["abi"], Value::Null);
        assert_eq!(facts["rulesetOpens"], Value::Null);
    }
}
