//! The types, their schemas and the examples say the same: values that a schema allows are read,
//! come back, and what is written is what the schema of that direction describes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use proptest::strategy::Union;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value};

use super::types::{VisitMethod, VisitNotice, Wire, of_method, of_notice};
use super::*;
use crate::codec::{decode_message, decode_request, encode};
use crate::envelope::Id;

/// A schema with the types that it names.
struct Described {
    schema: Value,
    types: Map<String, Value>,
}

impl Described {
    fn new<T: Wire>(settings: SchemaSettings) -> Self {
        let mut generator = settings.into_generator();
        let schema = generator.subschema_for::<T>().to_value();
        let types = generator.take_definitions(true);
        Self { schema, types }
    }

    fn follow<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(path) => &self.types[path.strip_prefix("#/$defs/").unwrap()],
            None => schema,
        }
    }
}

/// Values that a schema allows.
fn allowed(all: &Described, schema: &Value) -> BoxedStrategy<Value> {
    let schema = all.follow(schema);
    for key in ["anyOf", "oneOf"] {
        if let Some(ways) = schema[key].as_array() {
            return Union::new(ways.iter().map(|way| allowed(all, way))).boxed();
        }
    }
    if let Some(only) = schema.get("const") {
        return Just(only.clone()).boxed();
    }
    if let Some(listed) = schema["enum"].as_array() {
        return proptest::sample::select(listed.clone()).boxed();
    }
    match &schema["type"] {
        Value::Array(types) => {
            let ways = types.iter().map(|kind| {
                let mut one = schema.clone();
                one["type"] = kind.clone();
                allowed(all, &one)
            });
            Union::new(ways).boxed()
        }
        Value::String(kind) => allowed_of_kind(all, schema, kind),
        _ if schema == &Value::Bool(true) || schema.is_object() => any_value(),
        _ => panic!("this says nothing: {schema}"),
    }
}

fn allowed_of_kind(all: &Described, schema: &Value, kind: &str) -> BoxedStrategy<Value> {
    match kind {
        "null" => Just(Value::Null).boxed(),
        "boolean" => any::<bool>().prop_map(Value::from).boxed(),
        "integer" => integers(schema["format"].as_str()),
        "string" if schema["maxLength"] == 1 => {
            any::<char>().prop_map(|c| c.to_string().into()).boxed()
        }
        "string" if schema["contentEncoding"] == "base64" => any::<Vec<u8>>()
            .prop_map(|bytes| STANDARD.encode(bytes).into())
            .boxed(),
        "string" => any::<String>().prop_map(Value::from).boxed(),
        "array" => arrays(all, schema),
        "object" => objects(all, schema),
        other => panic!("no values of kind {other} are made"),
    }
}

fn integers(format: Option<&str>) -> BoxedStrategy<Value> {
    match format {
        Some("uint64") => any::<u64>().prop_map(Value::from).boxed(),
        Some("int64") => any::<i64>().prop_map(Value::from).boxed(),
        Some("uint32") => any::<u32>().prop_map(Value::from).boxed(),
        Some("int32") => any::<i32>().prop_map(Value::from).boxed(),
        other => panic!("no integers of format {other:?} are made"),
    }
}

fn arrays(all: &Described, schema: &Value) -> BoxedStrategy<Value> {
    match schema["prefixItems"].as_array() {
        Some(items) => {
            let items: Vec<_> = items.iter().map(|item| allowed(all, item)).collect();
            items.prop_map(Value::from).boxed()
        }
        None => proptest::collection::vec(allowed(all, &schema["items"]), 0..3)
            .prop_map(Value::from)
            .boxed(),
    }
}

fn objects(all: &Described, schema: &Value) -> BoxedStrategy<Value> {
    let Some(properties) = schema["properties"].as_object() else {
        return Just(serde_json::json!({})).boxed();
    };
    let is_required = |name: &str| required(schema).any(|other| other == name);
    let members: Vec<_> = properties
        .iter()
        .map(|(name, schema)| {
            let value = allowed(all, schema);
            let value = match is_required(name) {
                true => value.prop_map(Some).boxed(),
                false => proptest::option::of(value).boxed(),
            };
            let name = name.clone();
            value.prop_map(move |value| Some((name.clone(), value?)))
        })
        .collect();
    members
        .prop_map(|members| Value::Object(members.into_iter().flatten().collect()))
        .boxed()
}

fn any_value() -> BoxedStrategy<Value> {
    let leaf = any::<Option<i64>>().prop_map(Value::from);
    let member = (any::<String>(), leaf.clone());
    let object = proptest::collection::vec(member, 0..3)
        .prop_map(|members| Value::Object(members.into_iter().collect()));
    prop_oneof![leaf, object].boxed()
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    let names = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    names.iter().filter_map(Value::as_str)
}

/// Whether a schema describes a value, as far as our schemas go.
fn describes(all: &Described, schema: &Value, value: &Value) -> bool {
    let schema = all.follow(schema);
    for key in ["anyOf", "oneOf"] {
        if let Some(ways) = schema[key].as_array() {
            return ways.iter().any(|way| describes(all, way, value));
        }
    }
    if let Some(only) = schema.get("const") {
        return only == value;
    }
    if let Some(listed) = schema["enum"].as_array() {
        return listed.contains(value);
    }
    let is_of = |kind: &Value| {
        kind.as_str()
            .is_some_and(|kind| is_of_kind(all, schema, kind, value))
    };
    match &schema["type"] {
        Value::Array(kinds) => kinds.iter().any(is_of),
        Value::Null => true,
        kind => is_of(kind),
    }
}

fn is_of_kind(all: &Described, schema: &Value, kind: &str, value: &Value) -> bool {
    match (kind, value) {
        ("null", Value::Null) | ("boolean", Value::Bool(_)) | ("string", Value::String(_)) => true,
        ("integer", Value::Number(number)) => number.is_i64() || number.is_u64(),
        ("array", Value::Array(items)) => match schema["prefixItems"].as_array() {
            Some(schemas) => {
                schemas.len() == items.len()
                    && schemas
                        .iter()
                        .zip(items)
                        .all(|(schema, item)| describes(all, schema, item))
            }
            None => items
                .iter()
                .all(|item| describes(all, &schema["items"], item)),
        },
        ("object", Value::Object(members)) => {
            let is_free = schema.get("properties").is_none();
            let is_known = |(name, value): (&String, &Value)| {
                let known = schema["properties"].get(name);
                is_free || known.is_some_and(|schema| describes(all, schema, value))
            };
            required(schema).all(|name| members.contains_key(name)) && members.iter().all(is_known)
        }
        _ => false,
    }
}

/// Reads and writes values of `T` that its schema allows.
fn goes_both_ways<T: Wire>() {
    let takes = Described::new::<T>(SchemaSettings::draft2020_12().for_deserialize());
    let gives = Described::new::<T>(SchemaSettings::draft2020_12().for_serialize());
    let config = Config {
        failure_persistence: None,
        cases: 100,
        ..Config::default()
    };
    let strategy = allowed(&takes, &takes.schema);
    let outcome = TestRunner::new(config).run(&strategy, |value| {
        let read: T = serde_json::from_value(value.clone())
            .map_err(|error| TestCaseError::fail(format!("{value}: {error}")))?;
        let written = serde_json::to_value(&read).unwrap();
        prop_assert!(describes(&gives, &gives.schema, &written), "{written}");
        prop_assert_eq!(serde_json::from_value::<T>(written).unwrap(), read);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{}: {error}", std::any::type_name::<T>());
    }
}

struct BothWays;

impl VisitMethod for BothWays {
    type Out = ();

    fn visit<P: Wire, R: Wire>(self) {
        goes_both_ways::<P>();
        goes_both_ways::<R>();
    }
}

impl VisitNotice for BothWays {
    type Out = ();

    fn visit<P: Wire>(self) {
        goes_both_ways::<P>();
    }
}

#[test]
fn what_a_schema_allows_is_read_and_written_as_described() {
    for method in Method::ALL {
        of_method(*method, BothWays);
    }
    for notice in Notice::ALL {
        of_notice(*notice, BothWays);
    }
    goes_both_ways::<Request>();
    goes_both_ways::<Message>();
}

/// Reads examples as what they are, and finds nothing lost.
struct ReadExample<'a>(&'a str, &'a str);

impl VisitMethod for ReadExample<'_> {
    type Out = ();

    fn visit<P: Wire, R: Wire>(self) {
        let line = encode(&Request::new(1, Method::Hello, example(self.0)), 10_000).unwrap();
        let params: P = decode_request(&line)
            .unwrap()
            .decode_params()
            .expect(self.0);
        keeps_everything(self.0, &params);
        let line = encode(&Message::answer(Id::Number(1), example(self.1)), 10_000).unwrap();
        assert!(matches!(decode_message(&line), Ok(Message::Answer { .. })));
        let result: R = serde_json::from_str(self.1).expect(self.1);
        keeps_everything(self.1, &result);
    }
}

impl VisitNotice for ReadExample<'_> {
    type Out = ();

    fn visit<P: Wire>(self) {
        let params: P = serde_json::from_str(self.0).expect(self.0);
        keeps_everything(self.0, &params);
    }
}

fn example(text: &str) -> Value {
    serde_json::from_str(text).expect(text)
}

/// What an example says is in what was read of it: no key was passed over.
fn keeps_everything(text: &str, read: &impl Wire) {
    let written = serde_json::to_value(read).unwrap();
    assert!(
        covers(&written, &example(text)),
        "{text} was read as {written}"
    );
}

fn covers(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(key, value)| whole.get(key).is_some_and(|other| covers(other, value))),
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len()
                && whole
                    .iter()
                    .zip(part)
                    .all(|(one, other)| covers(one, other))
        }
        _ => whole == part,
    }
}

#[test]
fn every_example_is_what_it_stands_for() {
    for method in Method::ALL {
        let example = ReadExample(request_example(*method), answer_example(*method));
        of_method(*method, example);
    }
    for notice in Notice::ALL {
        of_notice(*notice, ReadExample(notice_example(*notice), ""));
    }
}

#[test]
fn the_document_names_everything_and_refers_to_nothing_else() {
    let document = document();
    for method in Method::ALL {
        assert!(document["methods"][method.name()].is_object(), "{method}");
    }
    for notice in Notice::ALL {
        assert!(document["notices"][notice.name()].is_object(), "{notice}");
    }
    let text = document.to_string();
    for part in text.split("\"$ref\":\"#/$defs/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(document["$defs"][name].is_object(), "{name}");
    }
    assert!(!text.contains("[`"), "a link of rustdoc is left");
}

#[test]
fn a_description_is_readable_without_the_source() {
    assert_eq!(
        plain("Uses [`crate::text::Text`] and\n[`Id`], `x`.\n\nMore."),
        "Uses `Text` and `Id`, `x`.\n\nMore."
    );
    assert_eq!(plain("open [`end"), "open [`end");
}
