//! What can be said, for machines: the JSON schema of every message, made from the types and their
//! documentation. `types` says which types a method has, `examples` shows each once.
//!
//! `cargo xtask tidy` keeps `docs/protocol.schema.json` and the tables of `docs/protocol.md` equal to
//! this. Nothing that is installed has it.

mod examples;
pub mod types;

#[cfg(test)]
mod tests;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::envelope::{Message, Request};
use crate::method::{Method, Notice};
use types::{VisitMethod, VisitNotice, Wire};

pub use examples::{answer_example, notice_example, request_example};

/// The dialect of the schema.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema of every line: a request or a message, and for each method and notice what it holds.
///
/// `methods` and `notices` are no words of JSON Schema, so a validator passes them over; a program
/// that speaks for a method takes its part from there.
#[must_use]
pub fn document() -> Value {
    let mut both = Generators::new();
    let methods = Method::ALL.iter().map(|method| {
        let (params, result) = types::of_method(*method, &mut both);
        (
            method.name().to_owned(),
            json!({ "params": params, "result": result }),
        )
    });
    let methods: Map<String, Value> = methods.collect();
    let notices = Notice::ALL.iter().map(|notice| {
        let params = types::of_notice(*notice, &mut both);
        (notice.name().to_owned(), json!({ "params": params }))
    });
    let notices: Map<String, Value> = notices.collect();
    let lines = [both.taken::<Request>(), both.given::<Message>()];
    let mut document = json!({
        "$schema": DIALECT,
        "title": "What clients and the arbiter of a domain say to each other",
        "protocol": crate::PROTOCOL_VERSION,
        "anyOf": lines,
        "methods": methods,
        "notices": notices,
        "$defs": both.definitions(),
    });
    plain_descriptions(&mut document);
    document
}

/// Two generators, because what an arbiter takes and what it gives are described differently: what may
/// be left out of a request is there in an answer.
struct Generators {
    takes: SchemaGenerator,
    gives: SchemaGenerator,
}

impl Generators {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12;
        Self {
            takes: settings().for_deserialize().into_generator(),
            gives: settings().for_serialize().into_generator(),
        }
    }

    fn taken<T: Wire>(&mut self) -> Value {
        self.takes.subschema_for::<T>().to_value()
    }

    fn given<T: Wire>(&mut self) -> Value {
        self.gives.subschema_for::<T>().to_value()
    }

    /// The types of both directions by name.
    ///
    /// # Panics
    /// If a type is used in both and differs: the page would describe only one.
    fn definitions(&mut self) -> Map<String, Value> {
        let mut all = self.takes.take_definitions(true);
        for (name, schema) in self.gives.take_definitions(true) {
            let same = all.get(&name).is_none_or(|other| *other == schema);
            assert!(same, "{name} is taken and given in different shapes");
            all.insert(name, schema);
        }
        all.sort_keys();
        all
    }
}

impl VisitMethod for &mut Generators {
    type Out = (Value, Value);

    fn visit<P: Wire, R: Wire>(self) -> (Value, Value) {
        (self.taken::<P>(), self.given::<R>())
    }
}

impl VisitNotice for &mut Generators {
    type Out = Value;

    fn visit<P: Wire>(self) -> Value {
        self.given::<P>()
    }
}

/// Makes every description one that a reader of the schema understands.
fn plain_descriptions(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                match member {
                    Value::String(text) if key == "description" => *text = plain(text),
                    other => plain_descriptions(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(plain_descriptions),
        _ => {}
    }
}

/// The text of a doc comment without its line breaks, and with the name alone where it links to a
/// path of this crate.
#[must_use]
pub fn plain(doc: &str) -> String {
    let paragraphs = doc.split("\n\n").map(|paragraph| {
        let lines: Vec<&str> = paragraph.lines().map(str::trim).collect();
        lines.join(" ")
    });
    let mut rest = paragraphs.collect::<Vec<_>>().join("\n\n");
    let mut text = String::new();
    while let Some((before, link)) = rest.split_once("[`") {
        let Some((path, after)) = link.split_once("`]") else {
            break;
        };
        let name = path.rsplit("::").next().unwrap_or(path);
        text += &format!("{before}`{name}`");
        rest = after.to_owned();
    }
    text + &rest
}
