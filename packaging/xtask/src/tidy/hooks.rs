//! Nothing that is shipped can be told to kill itself (docs/decisions/0028), or to do without what the kernel
//! has (docs/decisions/0036): features that only tests ask for are in no plain build.

use std::fs;
use std::path::Path;

use super::Breach;
use crate::tool::{Failure, cargo, read, run, target_dir};

/// A feature that only tests ask for.
struct Hook {
    /// Its crate, as `cargo tree` begins the line.
    package: &'static str,
    feature: &'static str,
    /// What the name of its variable begins with.
    variable: &'static str,
    /// What a program with it can be told.
    told: &'static str,
}

const HOOKS: [Hook; 2] = [
    Hook {
        package: "xioflow-killpoint ",
        feature: "armed",
        variable: xioflow_killpoint::VARIABLE_PREFIX,
        told: "can be told to kill itself",
    },
    Hook {
        package: "xioflow-sys ",
        feature: "lacking",
        variable: xioflow_sys::TEST_VARIABLE,
        told: "can be told to do without what the kernel has",
    },
];

/// What is shipped.
const PROGRAMS: [&str; 2] = ["xioflow", "xioflow-reaper"];

pub(super) fn check() -> Result<Vec<Breach>, Failure> {
    let mut tree = cargo(&["tree", "--workspace", "--edges", "all", "--prefix", "none"]);
    let lines = read(tree.args(["--no-dedupe", "--format", "{p}|{f}"]))?;
    let mut breaches: Vec<_> = HOOKS
        .iter()
        .filter_map(|hook| hook.in_plain(&lines))
        .collect();
    // As `cargo xtask test` builds them, so that nothing is built twice.
    run(&mut cargo(&["build", "--workspace", "--bins", "--quiet"]))?;
    let target = target_dir()?;
    for profile in ["debug", "release"] {
        for program in PROGRAMS {
            let path = target.join(profile).join(program);
            for hook in &HOOKS {
                breaches.extend(hook.examine(&path)?);
            }
        }
    }
    Ok(breaches)
}

impl Hook {
    /// Looks whether anything in the workspace asks for it by default.
    fn in_plain(&self, tree: &str) -> Option<Breach> {
        let has_it = |line: &str| {
            line.strip_prefix(self.package)
                .and_then(|rest| rest.split_once('|'))
                .is_some_and(|(_, features)| {
                    features.split([',', ' ']).any(|one| one == self.feature)
                })
        };
        let instead = "find who asks for it by `cargo tree --workspace -e features -i <crate>`, and let a feature \
                       that is off by default ask for it";
        let fault = format!("has the feature {} in a plain build", self.feature);
        tree.lines()
            .any(has_it)
            .then(|| Breach::new(self.package.trim(), fault, instead))
    }

    /// Looks for it in a program, if that has been built.
    fn examine(&self, path: &Path) -> Result<Option<Breach>, Failure> {
        if !path.exists() {
            return Ok(None);
        }
        let bytes = fs::read(path).map_err(|source| Failure::File {
            path: path.to_path_buf(),
            source,
        })?;
        let instead = "build it again with a plain `cargo build`; if it is still there, see that nothing of it is \
                       compiled without its feature";
        let found = self.is_in(&bytes);
        Ok(found.then(|| Breach::new(path.display(), self.told, instead)))
    }

    /// Whether a program knows the variable.
    fn is_in(&self, program: &[u8]) -> bool {
        let wanted = self.variable.as_bytes();
        program.windows(wanted.len()).any(|found| found == wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_with_its_hook_is_found_by_the_feature() {
        let plain = "xioflow-kernel v0.1.0 (/x)|\nxioflow-killpoint v0.1.0 (/x/killpoint)|\n\
                     xioflow-sys v0.1.0 (/x/sys)|";
        for hook in &HOOKS {
            assert_eq!(hook.in_plain(plain), None);
            for features in [
                hook.feature.to_owned(),
                format!("{},default (*)", hook.feature),
            ] {
                let line = format!("{}v0.1.0 (/x/y)|{features}", hook.package);
                let found = hook.in_plain(&format!("{plain}\n{line}"));
                assert!(found.is_some(), "{line}");
            }
        }
    }

    /// This test has the names in itself, as a program with a hook has; the crash matrix and the suite `hosts` look
    /// at programs that have one.
    #[test]
    fn a_program_with_a_hook_is_found() {
        let own = fs::read("/proc/self/exe").expect("a test can read itself");
        for hook in &HOOKS {
            assert!(hook.is_in(&own), "{}", hook.variable);
            assert!(!hook.is_in(b"XIOFLOW_TEST_BIN_DIR"));
            let none = hook
                .examine(Path::new("/nowhere/xioflow"))
                .expect("nothing to read");
            assert_eq!(none, None);
        }
    }
}
