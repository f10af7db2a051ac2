//! Arrows between our crates point one way, as docs/architecture.md draws them.

use serde_json::Value;

use super::Breach;
use crate::tool::{Failure, metadata};

/// Every crate of ours with those of ours that it may lean on.
const ARROWS: &[(&str, &[&str])] = &[
    ("xioflow-sys", &[]),
    ("xioflow-protocol", &[]),
    ("xioflow-facts", &["xioflow-sys"]),
    ("xioflow-landlock", &["xioflow-sys"]),
    ("xioflow-cgroup", &[]),
    ("xioflow-sandbox", &["xioflow-landlock"]),
    (
        "xioflow-reaper",
        &[
            "xioflow-sys",
            "xioflow-protocol",
            "xioflow-facts",
            "xioflow-landlock",
        ],
    ),
    ("xioflow-killpoint", &[]),
    ("xioflow-journal", &["xioflow-killpoint"]),
    ("xioflow-rpc", &[]),
    (
        "xioflow-client",
        &["xioflow-rpc", "xioflow-journal", "xioflow-facts"],
    ),
    ("xioflow-kernel", KERNEL),
    (
        "xioflow-arbiter",
        &[
            "xioflow-kernel",
            "xioflow-journal",
            "xioflow-killpoint",
            "xioflow-rpc",
            "xioflow-facts",
        ],
    ),
    ("xioflow", CLI),
    (
        "xioflow-fixture",
        &["xioflow-protocol", "xioflow-reaper", "xioflow-sys"],
    ),
    ("xioflow-kit", &["xioflow-protocol"]),
    ("xioflow-suite", &["xioflow-kernel", "xioflow-protocol"]),
    ("xioflow-conformance", &["xioflow-kernel", "xioflow-kit"]),
    (
        "xioflow-matrix",
        &[
            "xioflow-arbiter",
            "xioflow-kernel",
            "xioflow-killpoint",
            "xioflow-kit",
        ],
    ),
    ("xioflow-vm", &["xioflow-kit"]),
    ("xioflow-soak", &["xioflow-kernel", "xioflow-kit"]),
    (
        "xioflow-trees",
        &["xioflow-kernel", "xioflow-kit", "xioflow-protocol"],
    ),
    (
        "xioflow-bench",
        &["xioflow-kernel", "xioflow-kit", "xioflow-protocol"],
    ),
    ("xioflow-storage", &["xioflow-kit"]),
    (
        "xioflow-model",
        &["xioflow-kernel", "xioflow-journal", "xioflow-protocol"],
    ),
    (
        "xioflow-fuzz",
        &[
            "xioflow-kernel",
            "xioflow-journal",
            "xioflow-protocol",
            "xioflow-rpc",
            "xioflow-simulation",
        ],
    ),
    (
        "xioflow-simulation",
        &[
            "xioflow-reaper",
            "xioflow-protocol",
            "xioflow-facts",
            "xioflow-sys",
        ],
    ),
    (
        "xtask",
        &["xioflow-killpoint", "xioflow-rpc", "xioflow-sys"],
    ),
];

const KERNEL: &[&str] = &[
    "xioflow-killpoint",
    "xioflow-client",
    "xioflow-rpc",
    "xioflow-journal",
    "xioflow-protocol",
    "xioflow-facts",
    "xioflow-sandbox",
    "xioflow-cgroup",
];

/// The last two are for the helper's program, which is a target of this package.
const CLI: &[&str] = &[
    "xioflow-arbiter",
    "xioflow-client",
    "xioflow-rpc",
    "xioflow-kernel",
    "xioflow-journal",
    "xioflow-protocol",
    "xioflow-facts",
    "xioflow-sandbox",
    "xioflow-cgroup",
    "xioflow-landlock",
    "xioflow-reaper",
    "xioflow-sys",
];

/// What any crate may lean on in its tests.
const IN_TESTS: &[&str] = &["xioflow-kit"];

pub(super) fn check() -> Result<Vec<Breach>, Failure> {
    let metadata = metadata()?;
    let packages = metadata["packages"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    Ok(packages.iter().flat_map(check_package).collect())
}

fn check_package(package: &Value) -> Vec<Breach> {
    let name = package["name"].as_str().unwrap_or_default();
    let Some((_, allowed)) = ARROWS.iter().find(|(crate_name, _)| *crate_name == name) else {
        let instead = "give it its place in packaging/xtask/src/tidy/arrows.rs";
        return vec![Breach::new(name, "has no place in the house", instead)];
    };
    let dependencies = package["dependencies"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    dependencies
        .iter()
        .filter(|dependency| dependency["path"].is_string())
        .filter(|dependency| !is_allowed(dependency, allowed))
        .map(|dependency| {
            let fault = format!(
                "leans on {}",
                dependency["name"].as_str().unwrap_or_default()
            );
            Breach::new(
                name,
                fault,
                "turn the arrow: take a plain value, or move the code down",
            )
        })
        .collect()
}

fn is_allowed(dependency: &Value, allowed: &[&str]) -> bool {
    let name = dependency["name"].as_str().unwrap_or_default();
    let in_tests = dependency["kind"] == "dev" && IN_TESTS.contains(&name);
    in_tests || allowed.contains(&name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, dependency: Value) -> Value {
        json!({ "name": name, "dependencies": [dependency] })
    }

    #[test]
    fn an_arrow_the_wrong_way_is_named() {
        let up = json!({ "name": "xioflow-kernel", "path": "x", "kind": null });
        let breaches = check_package(&package("xioflow-journal", up));
        assert_eq!(breaches.len(), 1);
        assert_eq!(breaches[0].fault, "leans on xioflow-kernel");
    }

    #[test]
    fn arrows_of_the_table_and_to_others_are_free() {
        let down = json!({ "name": "xioflow-journal", "path": "x", "kind": null });
        assert_eq!(check_package(&package("xioflow-kernel", down)), []);
        let foreign = json!({ "name": "rustix", "path": null, "kind": null });
        assert_eq!(check_package(&package("xioflow-journal", foreign)), []);
    }

    #[test]
    fn the_kit_is_for_tests_only() {
        let kit = |kind: Value| json!({ "name": "xioflow-kit", "path": "x", "kind": kind });
        assert_eq!(
            check_package(&package("xioflow-kernel", kit(json!("dev")))),
            []
        );
        assert_eq!(
            check_package(&package("xioflow-kernel", kit(json!(null)))).len(),
            1
        );
    }

    #[test]
    fn a_crate_without_a_place_is_named() {
        let breaches = check_package(&json!({ "name": "stray", "dependencies": [] }));
        assert_eq!(breaches.len(), 1);
    }

    /// The table itself must not allow a circle.
    #[test]
    fn the_table_has_no_circle() {
        let mut placed: Vec<&str> = Vec::new();
        while placed.len() < ARROWS.len() {
            let next = ARROWS.iter().find(|(name, below)| {
                !placed.contains(name) && below.iter().all(|one| placed.contains(one))
            });
            placed.push(next.expect("a crate that leans only on placed ones").0);
        }
    }
}
