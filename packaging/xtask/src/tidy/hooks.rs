//! Nothing that is shipped can be told to kill itself (docs/decisions/0028): the points of
//! `xioflow-killpoint` are armed in the programs of the crash matrix only.

use std::fs;
use std::path::Path;

use xioflow_killpoint::VARIABLE_PREFIX;

use super::Breach;
use crate::tool::{Failure, cargo, read, run, target_dir};

/// The crate, as `cargo tree` begins its line.
const CRATE: &str = "xioflow-killpoint ";
/// Its feature.
const FEATURE: &str = "armed";
/// What is shipped.
const PROGRAMS: [&str; 2] = ["xioflow", "xioflow-reaper"];

pub(super) fn check() -> Result<Vec<Breach>, Failure> {
    let mut tree = cargo(&["tree", "--workspace", "--edges", "all", "--prefix", "none"]);
    let lines = read(tree.args(["--no-dedupe", "--format", "{p}|{f}"]))?;
    let mut breaches = armed(&lines);
    // As `cargo xtask test` builds them, so that nothing is built twice.
    run(&mut cargo(&["build", "--workspace", "--bins", "--quiet"]))?;
    let target = target_dir()?;
    for profile in ["debug", "release"] {
        for program in PROGRAMS {
            breaches.extend(examine(&target.join(profile).join(program))?);
        }
    }
    Ok(breaches)
}

/// Looks whether anything in the workspace arms the points by default.
fn armed(tree: &str) -> Vec<Breach> {
    let is_armed = |line: &&str| {
        line.strip_prefix(CRATE)
            .and_then(|rest| rest.split_once('|'))
            .is_some_and(|(_, features)| features.split([',', ' ']).any(|one| one == FEATURE))
    };
    let instead = "find who asks for it by `cargo tree --workspace -e features -i xioflow-killpoint`, and \
                   let a feature that is off by default ask for it";
    let breach = |_| Breach::new(CRATE.trim(), "is armed in a plain build", instead);
    tree.lines()
        .find(is_armed)
        .map(breach)
        .into_iter()
        .collect()
}

/// Looks for a hook in a program, if that has been built.
fn examine(path: &Path) -> Result<Option<Breach>, Failure> {
    if !path.exists() {
        return Ok(None);
    }
    let bytes = fs::read(path).map_err(|source| Failure::File {
        path: path.to_path_buf(),
        source,
    })?;
    let instead = "build it again with a plain `cargo build`; if it is still there, see that its points are \
                   passed by closures";
    Ok(
        has_hook(&bytes)
            .then(|| Breach::new(path.display(), "can be told to kill itself", instead)),
    )
}

/// Whether a program knows the variables that an armed one reads.
fn has_hook(program: &[u8]) -> bool {
    let wanted = VARIABLE_PREFIX.as_bytes();
    program.windows(wanted.len()).any(|found| found == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_armed_crate_is_found_by_its_feature() {
        let plain = "xioflow-kernel v0.1.0 (/x)|\nxioflow-killpoint v0.1.0 (/x/killpoint)|";
        assert_eq!(armed(plain), []);
        for line in [
            "xioflow-killpoint v0.1.0 (/x/killpoint)|armed",
            "xioflow-killpoint v0.1.0 (/x/killpoint)|armed,default (*)",
        ] {
            assert_eq!(armed(&format!("{plain}\n{line}")).len(), 1, "{line}");
        }
    }

    /// This test has the name in itself, as an armed program has; the crash matrix looks at one that is.
    #[test]
    fn a_program_with_a_hook_is_found() {
        let own = fs::read("/proc/self/exe").expect("a test can read itself");
        assert!(has_hook(&own), "{VARIABLE_PREFIX}");
        assert!(!has_hook(b"XIOFLOW_TEST_BIN_DIR"));
        let none = examine(Path::new("/nowhere/xioflow")).expect("nothing to read");
        assert_eq!(none, None);
    }
}
