//! The JSON Schema of the configuration file, for editors. It follows from the keys that are read and their forms;
//! `docs/configuration.md` explains the keys.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::ServiceSettings;
use crate::source::{ANY_NAME, Effective, LIST_ITEM, SettingSources};

/// The page that explains each key, in tables whose rows begin with the key.
const PAGE: &str = include_str!("../../../docs/configuration.md");

/// A key of the file, a table, or both.
#[derive(Default)]
struct SchemaNode {
    /// The schema of the value.
    value: Option<Value>,
    inner: BTreeMap<String, SchemaNode>,
}

/// Returns the schema.
#[must_use]
pub fn configuration_schema() -> Value {
    let mut sources = SettingSources::with_sample_tables();
    // The samples name no server, which is a problem for the settings and none for their keys.
    let _ = ServiceSettings::from_sources(&mut sources);
    let explanations: BTreeMap<&str, &str> = PAGE.lines().filter_map(parse_explanation).collect();
    let mut root = SchemaNode::default();
    for (key, mut schema) in sources.schemas {
        let default = sources.read.iter().find(|read| read.key == key).and_then(default_value);
        if let Value::Object(schema) = &mut schema {
            schema.extend(default.map(|default| ("default".to_owned(), default)));
            let explanation = explanations.get(&*key);
            schema.extend(explanation.map(|text| ("description".to_owned(), json!(text))));
        }
        root.node_mut(&key).value = Some(schema);
    }
    let mut schema = Map::from_iter([
        ("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema")),
        ("title".to_owned(), json!("The configuration of Causerie")),
    ]);
    if let Value::Object(table) = root.into_schema() {
        schema.extend(table);
    }
    Value::Object(schema)
}

/// Parses a row of the page: the key and its meaning.
fn parse_explanation(line: &str) -> Option<(&str, &str)> {
    let mut cells = line.strip_prefix("| `")?.split(" | ");
    let (key, _default, meaning) = (cells.next()?.strip_suffix('`')?, cells.next()?, cells.next()?);
    Some((key, meaning.trim_end_matches([' ', '|'])))
}

/// Returns the default as JSON; the texts and numbers of TOML have the same syntax.
fn default_value(read: &Effective) -> Option<Value> {
    serde_json::from_str(read.value.as_deref()?).ok()
}

impl SchemaNode {
    fn node_mut(&mut self, key: &str) -> &mut Self {
        key.split('.').fold(self, |node, name| node.inner.entry(name.to_owned()).or_default())
    }

    fn into_schema(mut self) -> Value {
        let Some(value) = self.value.take() else { return self.into_table() };
        if self.inner.is_empty() {
            return value;
        }
        // One text, or a table with one for each language.
        json!({ "anyOf": [value, self.into_table()] })
    }

    fn into_table(mut self) -> Value {
        if let Some(item) = self.inner.remove(LIST_ITEM) {
            return json!({ "type": "array", "items": item.into_schema() });
        }
        let others = self.inner.remove(ANY_NAME).map_or(Value::Bool(false), Self::into_schema);
        let named: Map<String, Value> =
            self.inner.into_iter().map(|(name, node)| (name, node.into_schema())).collect();
        json!({ "type": "object", "properties": named, "additionalProperties": others })
    }
}

#[cfg(test)]
mod tests {
    use toml::de::DeTable;

    use super::*;
    use crate::source::{SettingOrigin, toml_to_json};

    /// Returns the first place at which a value differs from the keywords of the schema that this file uses.
    fn find_violation(value: &Value, schema: &Value, place: &str) -> Option<String> {
        if let Some(choices) = schema["anyOf"].as_array() {
            let mut found = choices.iter().map(|choice| find_violation(value, choice, place));
            return found.all(|violation| violation.is_some()).then(|| format!("{place}: no choice fits"));
        }
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let is_kind = |wanted: &Value| wanted == kind || (wanted == "number" && kind == "integer");
        let fits = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().any(is_kind),
            Value::Null => schema["enum"].as_array().is_some_and(|choices| choices.contains(value)),
            wanted => is_kind(wanted),
        };
        let number = value.as_f64();
        let is_below = number.zip(schema["minimum"].as_f64()).is_some_and(|(value, least)| value < least);
        let is_above = number.zip(schema["maximum"].as_f64()).is_some_and(|(value, most)| value > most);
        if !fits || is_below || is_above {
            return Some(format!("{place}: {value} is not {schema}"));
        }
        match value {
            Value::Array(items) => {
                let mut items = items.iter().enumerate();
                items.find_map(|(at, item)| find_violation(item, &schema["items"], &format!("{place}[{at}]")))
            }
            Value::Object(fields) if schema["properties"].is_object() => {
                fields.iter().find_map(|(name, value)| {
                    let place = format!("{place}.{name}");
                    let named = schema["properties"].get(name);
                    match named.unwrap_or(&schema["additionalProperties"]) {
                        Value::Bool(_) => Some(format!("{place}: unknown key")),
                        schema => find_violation(value, schema, &place),
                    }
                })
            }
            _ => None,
        }
    }

    fn check_file(text: &str) -> Option<String> {
        let table = DeTable::parse(text).expect("TOML");
        let fields = table.get_ref().iter().map(|(name, value)| {
            (name.get_ref().to_string(), toml_to_json(value.get_ref()).expect("JSON has it"))
        });
        find_violation(&Value::Object(fields.collect()), &configuration_schema(), "")
    }

    /// Returns the schema of a key in the file.
    fn find_key<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
        let mut schemas = key.split('.').try_fold(schema, |schema, name| schema["properties"].get(name));
        schemas.take()
    }

    #[test]
    fn configuration_schema_has_every_key() {
        let schema = configuration_schema();
        let loaded = ServiceSettings::load(SettingSources::new(Vec::new(), [])).expect("the defaults hold");
        for Effective { key, value, origin } in &loaded.effective {
            assert_eq!(*origin, SettingOrigin::Default);
            let found = find_key(&schema, key).unwrap_or_else(|| panic!("{key} is missing"));
            assert!(found["description"].as_str().is_some_and(|text| text.len() > 10), "{key} is explained");
            // What `config print` shows is valid in the file.
            if let Some(shown) = value {
                let value = serde_json::from_str(shown).expect("JSON");
                assert_eq!(find_violation(&value, found, key), None);
                assert_eq!(found["default"], value, "{key}");
            }
        }
        let model = &schema["properties"]["model"]["items"]["properties"];
        for key in ["id", "vendor", "name", "label", "price", "context_tokens", "options", "default"] {
            assert!(model[key].is_object(), "model.{key}");
        }
        let server = &schema["properties"]["mcp"]["additionalProperties"]["properties"];
        for key in ["url", "tools", "read_only", "headers", "header_files"] {
            assert!(server[key].is_object(), "mcp.{key}");
        }
    }

    #[test]
    fn documented_examples_fit_the_schema() {
        let pages = [PAGE, include_str!("../../../docs/models.md"), include_str!("../../../docs/web.md")];
        let mut seen = 0;
        for page in pages {
            let examples = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
            for example in examples.filter(|example| !example.contains("[[jurisdictions]]")) {
                assert_eq!(check_file(example), None, "{example}");
                seen += 1;
            }
        }
        assert!(seen >= 5, "{seen}");
    }

    #[test]
    fn schema_refuses_what_settings_refuse() {
        for (wrong, expected) in [
            ("lisen = \"127.0.0.1:1\"", ".lisen: unknown key"),
            ("listen = 8080", ".listen: 8080 is not"),
            ("machine.driver = \"vm\"", ".machine.driver: "),
            ("machine.processes_max = 1", ".machine.processes_max: 1 is not"),
            ("database.accept_empty = \"yes\"", ".database.accept_empty: "),
            ("[mcp.wiki]\ntool = []", ".mcp.wiki.tool: unknown key"),
            ("[[model]]\nlabel = { de = \"x\" }", ".model[0].label: no choice fits"),
        ] {
            let found = check_file(wrong).unwrap_or_default();
            assert!(found.starts_with(expected), "{wrong}: {found}");
        }
    }
}
