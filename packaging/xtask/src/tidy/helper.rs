//! The helper links nothing but itself (docs/decisions/0001): no loader, no libc, no std.

use std::path::Path;
use std::{fs, io};

use super::Breach;
use crate::elf::{Linkage, linkage};
use crate::tool::{Failure, cargo, read, read_file, run, target_dir};

const PROGRAM: &str = "xioflow-reaper";

/// The largest helper that is installed: 1.5 MiB.
const SIZE_MAX_BYTES: u64 = 1536 * 1024;

pub(super) fn check() -> Result<Vec<Breach>, Failure> {
    let mut breaches = features()?;
    breaches.extend(program()?);
    breaches.extend(released()?);
    Ok(breaches)
}

/// A helper that was built to be installed is small: one is started for each operation. It is not built for this: the
/// package takes minutes, and whoever installs or measures it has built it.
fn released() -> Result<Option<Breach>, Failure> {
    let path = target_dir()?.join("release").join(Path::new(PROGRAM));
    match fs::metadata(&path) {
        Ok(metadata) => Ok(too_large(metadata.len())),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Failure::File { path, source }),
    }
}

fn too_large(size_bytes: u64) -> Option<Breach> {
    let fault = format!("has {size_bytes} bytes, at most {SIZE_MAX_BYTES} are promised");
    let instead =
        "look what has come in by `size` and `nm --size-sort` of target/release/xioflow-reaper";
    (size_bytes > SIZE_MAX_BYTES).then(|| Breach::new(PROGRAM, fault, instead))
}

/// No crate of the helper's closure may have a feature `std` anywhere in the workspace, because
/// cargo builds a crate once, with all features that anyone asks for.
fn features() -> Result<Vec<Breach>, Failure> {
    let below = tree(&["--package", PROGRAM, "--edges", "normal,no-proc-macro"])?;
    let everywhere = tree(&["--workspace", "--edges", "normal,dev,no-proc-macro"])?;
    Ok(with_std(&below, &everywhere))
}

fn with_std(below: &str, everywhere: &str) -> Vec<Breach> {
    let closure: Vec<_> = below
        .lines()
        .filter_map(|line| line.split('|').next())
        .collect();
    let mut names: Vec<_> = everywhere
        .lines()
        .filter_map(|line| line.split_once('|'))
        .filter(|(name, features)| {
            closure.contains(name) && features.split(',').any(|feature| feature == "std")
        })
        .map(|(name, _)| name)
        .collect();
    names.sort_unstable();
    names.dedup();
    let instead = "find who asks for it by `cargo tree --workspace -e features -i <crate>`, and \
                   switch its default features off";
    let breach = |name| Breach::new(name, "is in the helper and has the feature std", instead);
    names.into_iter().map(breach).collect()
}

/// One line a crate: name and version, `|`, features.
fn tree(arguments: &[&str]) -> Result<String, Failure> {
    let mut command = cargo(&[
        "tree",
        "--prefix",
        "none",
        "--no-dedupe",
        "--format",
        "{p}|{f}",
    ]);
    read(command.args(arguments))
}

fn program() -> Result<Vec<Breach>, Failure> {
    run(&mut cargo(&[
        "build",
        "--quiet",
        "--package",
        "xioflow",
        "--bin",
        PROGRAM,
    ]))?;
    let bytes = read_file(&target_dir()?.join("debug").join(Path::new(PROGRAM)))?;
    let fault = match linkage(&bytes) {
        Linkage::Freestanding => return Ok(Vec::new()),
        Linkage::Dynamic => "asks for a loader",
        Linkage::Unknown => "is no 64-bit ELF program",
    };
    let instead = "keep the link arguments of supervisor/cli/build.rs";
    Ok(vec![Breach::new(PROGRAM, fault, instead)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_std_in_the_closure_is_found_wherever_it_is_asked_for() {
        let below = "minicbor v2.0.0|alloc\nxioflow-sys v0.1.0 (path)|";
        let everywhere = "serde v1.0.0|std\nminicbor v2.0.0|alloc,std\nminicbor v2.0.0|alloc,std";
        let breaches = with_std(below, everywhere);
        assert_eq!(breaches.len(), 1);
        assert_eq!(breaches[0].place, "minicbor v2.0.0");
    }

    #[test]
    fn a_helper_above_its_size_is_named() {
        assert_eq!(too_large(SIZE_MAX_BYTES), None);
        assert!(too_large(SIZE_MAX_BYTES + 1).is_some());
    }

    #[test]
    fn a_std_outside_of_it_is_free() {
        assert_eq!(with_std("minicbor v2.0.0|alloc", "serde v1.0.0|std"), []);
    }
}
