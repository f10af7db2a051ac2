//! Markdown of the schema: a section for each method, notice and type, with a table of its fields.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Map, Value};
use xioflow_rpc::envelope::ID_MAX_BYTES;
use xioflow_rpc::method::{Method, Notice};
use xioflow_rpc::operation::INLINE_MAX_BYTES;
use xioflow_rpc::piece::DATA_MAX_BYTES;
use xioflow_rpc::refusal::{code, kind};
use xioflow_rpc::schema::{answer_example, notice_example, plain, request_example};
use xioflow_rpc::{DESCRIPTORS_MAX, REPLY_MAX_BYTES, REQUEST_MAX_BYTES};

/// Writes one part of the page from the schema.
type Writer = fn(&Value) -> String;

/// The parts of the page by name.
pub(super) const PARTS: &[(&str, Writer)] = &[
    ("bounds", bounds),
    ("refusals", refusals),
    ("methods", methods),
    ("notices", notices),
    ("types", types),
];

/// Types of the envelope, which the page describes in words.
const ENVELOPE: [&str; 3] = ["Request", "Message", "Version"];

fn bounds(_: &Value) -> String {
    let rows = [
        (
            "a line of a client, its end included",
            REQUEST_MAX_BYTES as u64,
        ),
        (
            "a line of the arbiter, its end included",
            REPLY_MAX_BYTES as u64,
        ),
        ("an id that is text", ID_MAX_BYTES as u64),
        (
            "output in one result, and in one answer of `artifacts.read`",
            INLINE_MAX_BYTES,
        ),
        ("bytes of output in one frame", DATA_MAX_BYTES),
    ];
    let mut text = String::from("| what | at most |\n| --- | --- |\n");
    for (what, bytes) in rows {
        line(&mut text, &format!("| {what} | {} |", size(bytes)));
    }
    line(
        &mut text,
        &format!("| descriptors with one request | {DESCRIPTORS_MAX} |"),
    );
    text
}

fn size(bytes: u64) -> String {
    match bytes {
        mebi if mebi % (1 << 20) == 0 => format!("{} MiB", mebi >> 20),
        kibi if kibi % (1 << 10) == 0 => format!("{} KiB", kibi >> 10),
        bytes => format!("{bytes} bytes"),
    }
}

fn refusals(_: &Value) -> String {
    let mut text = String::from("| `code` | meaning |\n| --- | --- |\n");
    for (code, about) in code::ALL {
        line(&mut text, &format!("| {code} | {} |", cell(&plain(about))));
    }
    text += "\n| `kind` | meaning |\n| --- | --- |\n";
    for (kind, about) in kind::ALL {
        line(
            &mut text,
            &format!("| `{kind}` | {} |", cell(&plain(about))),
        );
    }
    text
}

fn methods(document: &Value) -> String {
    let mut text = String::new();
    for method in Method::ALL {
        let types = &document["methods"][method.name()];
        let params = follow(document, &types["params"]);
        line(&mut text, &format!("### {method}\n"));
        line(&mut text, &about(params));
        text += &fields(params, "It has no parameters.");
        text += &format!("\n{}", result(document, &types["result"]));
        let (asked, answered) = (request_example(*method), answer_example(*method));
        text += &format!(
            "\n```json\n{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":{asked}}}\n{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{answered}}}\n```\n\n"
        );
    }
    text
}

fn result(document: &Value, schema: &Value) -> String {
    let result = follow(document, schema);
    match result["properties"].as_object() {
        Some(properties) if !properties.is_empty() => {
            format!("The result:\n{}", fields(result, ""))
        }
        None if name_of(schema).is_none() => "The result is that object.\n".into(),
        _ => "The result is `{}`.\n".into(),
    }
}

fn notices(document: &Value) -> String {
    let mut text = String::new();
    for notice in Notice::ALL {
        let params = follow(document, &document["notices"][notice.name()]["params"]);
        line(&mut text, &format!("### {notice}\n"));
        line(&mut text, &about(params));
        text += &fields(params, "It says nothing more.");
        let news = notice_example(*notice);
        text += &format!(
            "\n```json\n{{\"jsonrpc\":\"2.0\",\"method\":\"{notice}\",\"params\":{news}}}\n```\n\n"
        );
    }
    text
}

/// What is named by other types and has no section yet.
fn types(document: &Value) -> String {
    let mut described: BTreeSet<&str> = ENVELOPE.into();
    for group in ["methods", "notices"] {
        for types in members(&document[group]).map(|(_, types)| types) {
            described.extend(members(types).filter_map(|(_, schema)| name_of(schema)));
        }
    }
    let mut text = String::new();
    for (name, schema) in members(&document["$defs"]) {
        if !described.contains(name.as_str()) {
            line(&mut text, &format!("### {name}\n"));
            line(&mut text, &about(schema));
            text += &shape(schema);
            text.push('\n');
        }
    }
    text
}

/// What a type of its own looks like: fields, or one of several values.
fn shape(schema: &Value) -> String {
    if schema.get("properties").is_some() {
        return fields(schema, "");
    }
    let ways = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
    let mut text = String::from("\n| value | meaning |\n| --- | --- |\n");
    for way in ways.into_iter().flatten() {
        let about = way["description"].as_str().unwrap_or_default();
        line(&mut text, &format!("| {} | {} |", value(way), cell(about)));
    }
    text
}

/// One of the values that a type can have.
fn value(way: &Value) -> String {
    if let Some(only) = way.get("const") {
        return format!("`{only}`");
    }
    let Some(properties) = way["properties"].as_object() else {
        return type_name(way);
    };
    let parts = properties
        .iter()
        .map(|(name, schema)| match schema.get("const") {
            Some(only) => format!("`\"{name}\":{only}`"),
            None => format!("`{name}`: {}", type_name(schema)),
        });
    format!("object with {}", parts.collect::<Vec<_>>().join(", "))
}

/// What a type is for. The name of its method, which the heading has, is left out.
fn about(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    let text = match text.split_once("`: ") {
        Some((name, rest)) if name.starts_with('`') && !name.contains('\n') => capitalised(rest),
        _ => text.to_owned(),
    };
    text.trim().to_owned()
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// The table of an object's fields; `without` where it has none.
fn fields(schema: &Value, without: &str) -> String {
    let properties = members(&schema["properties"]);
    let required = schema["required"].as_array();
    let rows: Vec<String> = properties
        .map(|(name, field)| {
            let is_required = required.is_some_and(|names| names.iter().any(|one| one == name));
            row(name, field, is_required)
        })
        .collect();
    if rows.is_empty() {
        let is_said = schema["description"]
            .as_str()
            .is_some_and(|text| text.contains(without));
        return if is_said || without.is_empty() {
            String::new()
        } else {
            format!("\n{without}\n")
        };
    }
    let head =
        "\n| field | type | required | default | meaning |\n| --- | --- | --- | --- | --- |\n";
    head.to_owned() + &rows.concat()
}

fn row(name: &str, field: &Value, is_required: bool) -> String {
    let required = if is_required { "yes" } else { "no" };
    let default = field.get("default");
    let default = default.map_or_else(String::new, |value| format!("`{value}`"));
    let about = field["description"].as_str().unwrap_or_default();
    let kind = type_name(field);
    format!(
        "| `{name}` | {kind} | {required} | {default} | {} |\n",
        cell(about)
    )
}

/// A type in words, with a link where it has a section.
fn type_name(schema: &Value) -> String {
    if let Some(name) = name_of(schema) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(only) = schema.get("const") {
        return format!("`{only}`");
    }
    if let Some(ways) = schema["anyOf"].as_array() {
        return joined(ways.iter().map(type_name));
    }
    match &schema["type"] {
        Value::Array(kinds) => joined(kinds.iter().map(|kind| kind_name(schema, kind))),
        Value::Null => "any value".into(),
        kind => kind_name(schema, kind),
    }
}

fn joined(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(" or ")
}

fn kind_name(schema: &Value, kind: &Value) -> String {
    match kind.as_str().unwrap_or_default() {
        "array" => match schema["prefixItems"].as_array() {
            Some(items) => {
                let items: Vec<String> = items.iter().map(type_name).collect();
                format!("array `[`{}`]`", items.join(", "))
            }
            None => format!("array of {}", type_name(&schema["items"])),
        },
        "integer" if schema["minimum"] == 0 => "integer ≥ 0".into(),
        other => other.to_owned(),
    }
}

fn name_of(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/$defs/")
}

fn follow<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    name_of(schema).map_or(schema, |name| &document["$defs"][name])
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

/// A text that stays in its cell.
fn cell(text: &str) -> String {
    text.replace("\n\n", " ")
        .replace('|', "\\|")
        .trim()
        .to_owned()
}

fn line(text: &mut String, line: &str) {
    // A String takes everything.
    writeln!(text, "{line}").ok();
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_is_a_row() {
        let field = json!({"type": ["integer", "null"], "minimum": 0, "default": 7, "description": "A | b."});
        assert_eq!(
            row("n", &field, false),
            "| `n` | integer ≥ 0 or null | no | `7` | A \\| b. |\n"
        );
    }

    #[test]
    fn types_are_named_in_words() {
        for (schema, name) in [
            (json!(true), "any value"),
            (json!({"$ref": "#/$defs/Caller"}), "[Caller](#caller)"),
            (
                json!({"type": "array", "items": {"type": "string"}}),
                "array of string",
            ),
            (
                json!({"type": "array", "prefixItems": [{"type": "string"}, true]}),
                "array `[`string, any value`]`",
            ),
            (
                json!({"anyOf": [{"$ref": "#/$defs/Id"}, {"type": "null"}]}),
                "[Id](#id) or null",
            ),
        ] {
            assert_eq!(type_name(&schema), name);
        }
    }

    #[test]
    fn the_method_is_not_named_twice() {
        let of = |text: &str| about(&json!({ "description": text }));
        assert_eq!(of("`op.stop`: stops it."), "Stops it.");
        assert_eq!(of("`a` and `b`: do both."), "Do both.");
        assert_eq!(
            of("`domain.status`. It is empty."),
            "`domain.status`. It is empty."
        );
    }

    #[test]
    fn every_type_that_is_linked_has_a_section() {
        let document = xioflow_rpc::schema::document();
        let page: String = PARTS.iter().map(|(_, write)| write(&document)).collect();
        for link in page.split("](#").skip(1) {
            let anchor = link.split(')').next().unwrap();
            let has = page
                .lines()
                .any(|line| line.to_lowercase() == format!("### {anchor}"));
            assert!(has, "nothing is named {anchor}");
        }
    }
}
