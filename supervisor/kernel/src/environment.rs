//! A command's environment: what is asked for, what it comes to, and which names may be told of it.
//!
//! Pure but for the caller's own variables, which are handed in. Values can be secrets, so they go
//! to the command and nowhere else.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::command::{InvalidCommand, no_nul};
use crate::result::EnvironmentNames;

/// Names that a result holds of each kind at most; one that withholds more says so by its count.
const NAMES_MAX: usize = 256;

/// What is asked of an environment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    pub(crate) inherits: bool,
    /// Variables that were named one by one; they win over inherited ones.
    pub(crate) named: Vec<(OsString, Source)>,
}

/// Where the value of a variable comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// It was given.
    Given(OsString),
    /// It is the caller's.
    Caller,
}

/// An environment as a command gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) variables: Vec<(OsString, OsString)>,
    pub(crate) names: EnvironmentNames,
}

impl Environment {
    /// Names a variable; a later mention of the same name replaces an earlier one.
    pub(crate) fn name(&mut self, name: OsString, source: Source) {
        self.named.retain(|(known, _)| *known != name);
        self.named.push((name, source));
    }

    /// Checks everything that does not depend on the caller's variables.
    pub(crate) fn validate(&self) -> Result<(), InvalidCommand> {
        for (name, source) in &self.named {
            if name.is_empty() || name.as_bytes().contains(&b'=') {
                return Err(InvalidCommand::EnvName { name: name.clone() });
            }
            no_nul(name, || format!("the variable name {name:?}"))?;
            if let Source::Given(value) = source {
                no_nul(value, || {
                    format!("the value of the variable {}", name.display())
                })?;
            }
        }
        Ok(())
    }

    /// Checks what does: that everything which is to be passed on is there.
    pub(crate) fn check_callers(
        &self,
        callers: &[(OsString, OsString)],
    ) -> Result<(), InvalidCommand> {
        for (name, source) in &self.named {
            if *source == Source::Caller {
                value_of(callers, name)?;
            }
        }
        Ok(())
    }

    /// Makes the environment, given the caller's variables.
    pub(crate) fn resolve(
        &self,
        callers: Vec<(OsString, OsString)>,
    ) -> Result<Resolved, InvalidCommand> {
        let names = self.names(&callers);
        let mut variables = Vec::new();
        if self.inherits {
            let inherited = callers.iter().filter(|(name, _)| !self.is_named(name));
            variables.extend(inherited.cloned());
        }
        for (name, source) in &self.named {
            let value = match source {
                Source::Given(value) => value.clone(),
                Source::Caller => value_of(&callers, name)?,
            };
            variables.push((name.clone(), value));
        }
        Ok(Resolved { variables, names })
    }

    fn is_named(&self, name: &OsStr) -> bool {
        self.named.iter().any(|(known, _)| known == name)
    }

    fn names(&self, callers: &[(OsString, OsString)]) -> EnvironmentNames {
        let from = |wanted: fn(&Source) -> bool| {
            let named = self.named.iter().filter(move |(_, source)| wanted(source));
            named.map(|(name, _)| name)
        };
        let kept = |name: &OsString| self.inherits || self.is_named(name);
        let withheld = sorted(callers.iter().map(|(name, _)| name).filter(|it| !kept(it)));
        EnvironmentNames {
            inherited: self.inherits,
            set: bounded(sorted(from(|it| matches!(it, Source::Given(_))))),
            passed: bounded(sorted(from(|it| *it == Source::Caller))),
            withheld_total: u32::try_from(withheld.len()).ok(),
            withheld: Some(bounded(withheld)),
        }
    }
}

fn value_of(callers: &[(OsString, OsString)], name: &OsStr) -> Result<OsString, InvalidCommand> {
    let found = callers.iter().find(|(known, _)| known == name);
    found
        .map(|(_, value)| value.clone())
        .ok_or_else(|| InvalidCommand::EnvAbsent {
            name: name.to_owned(),
        })
}

fn sorted<'a>(names: impl Iterator<Item = &'a OsString>) -> BTreeSet<String> {
    names
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

fn bounded(names: BTreeSet<String>) -> Vec<String> {
    names.into_iter().take(NAMES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn callers() -> Vec<(OsString, OsString)> {
        let all = [("PATH", "/bin"), ("TOKEN", "secret"), ("HOME", "/nest")];
        all.map(|(name, value)| (name.into(), value.into())).into()
    }

    fn given(value: &str) -> Source {
        Source::Given(value.into())
    }

    fn environment(inherits: bool, named: &[(&str, Source)]) -> Environment {
        let mut environment = Environment {
            inherits,
            ..Environment::default()
        };
        for (name, source) in named {
            environment.name((*name).into(), source.clone());
        }
        environment
    }

    fn pairs(resolved: &Resolved) -> Vec<(&str, &str)> {
        resolved
            .variables
            .iter()
            .map(|(name, value)| (name.to_str().unwrap(), value.to_str().unwrap()))
            .collect()
    }

    #[test]
    fn nothing_asked_is_nothing_given_and_all_of_it_named() {
        let resolved = environment(false, &[]).resolve(callers()).unwrap();
        assert_eq!(pairs(&resolved), []);
        let withheld = ["HOME", "PATH", "TOKEN"].map(str::to_owned);
        assert_eq!(resolved.names.withheld, Some(withheld.to_vec()));
        assert_eq!(resolved.names.withheld_total, Some(3));
    }

    #[test]
    fn the_last_mention_of_a_name_counts() {
        let named = [("A", given("1")), ("B", given("2")), ("A", given("3"))];
        let resolved = environment(false, &named).resolve(callers()).unwrap();
        assert_eq!(pairs(&resolved), [("B", "2"), ("A", "3")]);
        let named = [("PATH", given("1")), ("PATH", Source::Caller)];
        let resolved = environment(false, &named).resolve(callers()).unwrap();
        assert_eq!(pairs(&resolved), [("PATH", "/bin")]);
        let named = [("PATH", Source::Caller), ("PATH", given("1"))];
        let resolved = environment(false, &named).resolve(callers()).unwrap();
        assert_eq!(pairs(&resolved), [("PATH", "1")]);
    }

    #[test]
    fn a_named_variable_wins_over_an_inherited_one() {
        let resolved = environment(true, &[("PATH", given("/only"))])
            .resolve(callers())
            .unwrap();
        let expected = [("TOKEN", "secret"), ("HOME", "/nest"), ("PATH", "/only")];
        assert_eq!(pairs(&resolved), expected);
        assert_eq!(resolved.names.withheld, Some(Vec::new()));
    }

    #[test]
    fn a_variable_that_is_not_there_cannot_be_passed_on() {
        let absent = environment(true, &[("ABSENT", Source::Caller)]).resolve(callers());
        let name = "ABSENT".into();
        assert_eq!(absent, Err(InvalidCommand::EnvAbsent { name }));
    }

    #[test]
    fn more_names_than_a_result_holds_are_counted() {
        let many = (0..300).map(|n| (format!("V{n:03}").into(), "".into()));
        let resolved = environment(false, &[]).resolve(many.collect()).unwrap();
        let withheld = resolved.names.withheld.unwrap();
        assert_eq!(
            (withheld.len(), resolved.names.withheld_total),
            (256, Some(300))
        );
        assert_eq!(
            (withheld[0].as_str(), withheld[255].as_str()),
            ("V000", "V255")
        );
    }

    proptest! {
        #[test]
        fn every_variable_of_the_caller_is_given_or_withheld_and_no_value_is_told(
            inherits in any::<bool>(),
            passed in prop::collection::btree_set(0usize..8, 0..8),
        ) {
            let callers: Vec<(OsString, OsString)> = (0..8)
                .map(|n| (format!("N{n}").into(), format!("secret{n}").into()))
                .collect();
            let named: Vec<(OsString, Source)> = passed
                .iter()
                .map(|n| (format!("N{n}").into(), Source::Caller))
                .collect();
            let resolved = Environment { inherits, named }.resolve(callers.clone()).unwrap();
            let withheld = resolved.names.withheld.clone().unwrap();
            for (name, value) in &callers {
                let is_given = resolved.variables.contains(&(name.clone(), value.clone()));
                let is_withheld = withheld.iter().any(|it| OsStr::new(it) == name);
                prop_assert!(is_given != is_withheld, "{:?}", name);
            }
            let told = format!("{:?}", resolved.names);
            prop_assert!(!told.contains("secret"), "{}", told);
        }
    }
}
