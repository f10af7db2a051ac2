//! The page and the schema of what clients and the arbiter say are made from the types of
//! `xioflow_rpc`, so that none changes alone. `wire/page.rs` writes the parts of the page.

mod page;

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::Breach;
use crate::tool::{Failure, root};

const PAGE: &str = "docs/protocol.md";
const SCHEMA: &str = "docs/protocol.schema.json";

/// What stands before and after a part of the page that is made.
const BEGIN: &str = "<!-- made by `cargo xtask tidy --bless`: ";
const BEGIN_END: &str = " -->";
const END: &str = "<!-- end -->";

const INSTEAD: &str = "run `cargo xtask tidy --bless`, and read what it has changed";

pub(super) fn check() -> Result<Vec<Breach>, Failure> {
    let document = xioflow_rpc::schema::document();
    let mut breaches = Vec::new();
    if fs::read_to_string(root().join(SCHEMA)).ok() != Some(as_file(&document)) {
        let fault = "does not describe the types of xioflow-rpc";
        breaches.push(Breach::new(SCHEMA, fault, INSTEAD));
    }
    let page = read_page()?;
    match made(&page, &document) {
        Ok(made) if made == page => {}
        Ok(_) => {
            let fault = "does not describe the types of xioflow-rpc";
            breaches.push(Breach::new(PAGE, fault, INSTEAD));
        }
        Err(fault) => breaches.push(Breach::new(PAGE, fault, "put the marks back")),
    }
    Ok(breaches)
}

/// Writes both anew. A page without its marks is left for `check` to complain about.
pub(super) fn bless() -> Result<(), Failure> {
    let document = xioflow_rpc::schema::document();
    write(SCHEMA, &as_file(&document))?;
    match made(&read_page()?, &document) {
        Ok(page) => write(PAGE, &page),
        Err(_) => Ok(()),
    }
}

fn as_file(document: &Value) -> String {
    format!("{document:#}\n")
}

fn read_page() -> Result<String, Failure> {
    fs::read_to_string(root().join(PAGE)).map_err(failed(PAGE))
}

fn write(path: &'static str, text: &str) -> Result<(), Failure> {
    fs::write(root().join(path), text).map_err(failed(path))
}

fn failed(path: &'static str) -> impl FnOnce(std::io::Error) -> Failure {
    move |source| Failure::File {
        path: PathBuf::from(path),
        source,
    }
}

/// The page with every part as the types have it now.
fn made(page: &str, document: &Value) -> Result<String, String> {
    page::PARTS
        .iter()
        .try_fold(page.to_owned(), |page, (name, write)| {
            replaced(&page, name, &write(document))
        })
}

/// The page with another text between the marks of one part.
fn replaced(page: &str, name: &str, text: &str) -> Result<String, String> {
    let begin = format!("{BEGIN}{name}{BEGIN_END}\n");
    let missing = || format!("has no part between `{}` and `{END}`", begin.trim_end());
    let (before, rest) = page.split_once(&begin).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok(format!("{before}{begin}\n{}\n\n{END}{after}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_replaced_between_its_marks_and_nothing_else() {
        let page =
            format!("a\n{BEGIN}x{BEGIN_END}\nold\n{END}\nb\n{BEGIN}y{BEGIN_END}\n{END}\nc\n");
        let once = replaced(&page, "x", "new\n").unwrap();
        assert_eq!(
            once,
            format!("a\n{BEGIN}x{BEGIN_END}\n\nnew\n\n{END}\nb\n{BEGIN}y{BEGIN_END}\n{END}\nc\n")
        );
        assert_eq!(replaced(&once, "x", "new").unwrap(), once);
        assert!(replaced(&page, "z", "new").is_err());
    }
}
