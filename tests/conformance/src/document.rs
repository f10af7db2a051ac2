//! A JSON document that says what it is when it is not what was expected.

use std::fmt;

use serde_json::{Map, Value};

/// The result of an operation, as programs read it.
#[derive(Debug, Clone, PartialEq)]
pub struct Document(pub Value);

impl Document {
    /// The value of a field; null if there is none.
    #[must_use]
    pub fn field(&self, name: &str) -> &Value {
        self.0.get(name).unwrap_or(&Value::Null)
    }

    /// A field that has to be text.
    ///
    /// # Panics
    /// With the whole document when it is none.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.field(name)
            .as_str()
            .unwrap_or_else(|| panic!("{name} is no text in {self}"))
    }

    /// A field that has to be a number.
    ///
    /// # Panics
    /// With the whole document when it is none.
    #[must_use]
    pub fn number(&self, name: &str) -> u64 {
        self.field(name)
            .as_u64()
            .unwrap_or_else(|| panic!("{name} is no number in {self}"))
    }

    /// Checks that each of these fields has this value.
    ///
    /// # Panics
    /// With the whole document when one has another.
    pub fn assert(&self, expected: &Value) -> &Self {
        for (name, value) in expected.as_object().expect("fields to expect") {
            let found = self.field(name);
            assert!(
                found == value,
                "{name} is {found}, expected {value}, in {self}"
            );
        }
        self
    }

    /// Checks that the end of the command is told as it was seen: an exit status or a signal if
    /// somebody saw it, neither if nobody did.
    ///
    /// # Panics
    /// With the whole document when something was invented.
    pub fn assert_nothing_invented(&self) -> &Self {
        let [code, signal] = ["exitCode", "signal"].map(|name| !self.field(name).is_null());
        let seen = match self.text("evidence") {
            "observed" => code != signal,
            "unobserved" => !code && !signal,
            other => panic!("evidence {other:?} in {self}"),
        };
        assert!(seen, "the end is not told as it was seen, in {self}");
        self
    }

    /// Checks that the other document is the same, byte for byte, apart from these fields.
    ///
    /// # Panics
    /// With each field that differs, or when their order does.
    pub fn assert_same(&self, other: &Self, apart_from: &[&str]) -> &Self {
        let [one, two] = [self, other].map(|document| document.without(apart_from));
        let names = one.keys().chain(two.keys());
        let differs = |name: &&String| one.get(*name) != two.get(*name);
        let lines = names.filter(differs).map(|name| {
            let [one, two] = [self, other].map(|document| document.field(name));
            format!("{name} is {one} and {two}")
        });
        let lines: Vec<_> = lines.collect();
        assert!(lines.is_empty(), "{} in {self}", lines.join("; "));
        let [one, two] = [one, two].map(|fields| Value::Object(fields).to_string());
        assert!(
            one == two,
            "the fields stand in another order: {one} and {two}"
        );
        self
    }

    fn without(&self, names: &[&str]) -> Map<String, Value> {
        let mut fields = self.0.as_object().cloned().expect("a document has fields");
        for name in names {
            fields.shift_remove(*name);
        }
        fields
    }
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Megabytes of output would bury the fields that a reader looks for.
        let mut shown = self.0.clone();
        for name in ["stdout", "stderr"] {
            if let Some(Value::String(text)) = shown.get_mut(name)
                && text.len() > SHOWN_MAX
            {
                let cut: String = text.chars().take(SHOWN_MAX).collect();
                *text = format!("{cut}... ({} bytes)", text.len());
            }
        }
        write!(f, "the document {shown:#}")
    }
}

/// How much of each output stream a report shows, in characters.
const SHOWN_MAX: usize = 400;
