//! Reshapes the schemas of tools, which MCP servers write, so that all vendors accept them.
//!
//! A vendor refuses a whole request for one schema that it does not like: for a union at the top, an array without
//! `items`, keywords of older drafts, or names with odd characters. Names are changed on the way out, and changed back in
//! the arguments of calls.

use std::collections::{BTreeMap, HashMap};

use domain::step::{StepRequest, ToolSpec};
use domain::step_note::StepNote;
use serde_json::{Map, Value, json};

/// The longest name of a property that every vendor accepts.
const NAME_MAX_CHARS: usize = 64;
/// Deeper schemas are replaced by one that accepts anything.
const DEPTH_MAX: usize = 24;
/// The types of JSON Schema.
const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];
/// The keywords whose value is a schema, a list of schemas, and an object of schemas.
const SCHEMA: [&str; 6] =
    ["items", "additionalProperties", "not", "contains", "propertyNames", "unevaluatedItems"];
const LISTS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
const OBJECTS: [&str; 5] = ["properties", "$defs", "definitions", "patternProperties", "dependentSchemas"];
/// The keywords that mean something in schemas of objects alone.
const OF_OBJECTS: [&str; 5] =
    ["properties", "required", "additionalProperties", "patternProperties", "propertyNames"];

/// The changed names of properties: from the sent name to the original one.
pub(crate) type Renamed = BTreeMap<String, String>;

/// Returns the schema of a tool's arguments as it is sent, and the names that it changes; `None` when it is not JSON.
fn reshape_schema(tool: &ToolSpec) -> Option<(String, Renamed)> {
    let original: Value = serde_json::from_str(&tool.schema).ok()?;
    let mut renamed = Renamed::new();
    let mut schema = object_schema(original.clone());
    mend_schema(&mut schema, &mut renamed, 0);
    // A schema that needs no change is sent as it was written.
    let json = if schema == original { tool.schema.clone() } else { schema.to_string() };
    Some((json, renamed))
}

/// Replaces the schemas of a request's tools by the schemas to send. Returns the changed names by tool, and
/// drops tools whose schema is not JSON, with a note.
pub(crate) fn prepare_schemas(request: &mut StepRequest) -> (HashMap<String, Renamed>, Vec<StepNote>) {
    let (mut changed, mut notes) = (HashMap::new(), Vec::new());
    request.tools.retain_mut(|tool| match reshape_schema(tool) {
        Some((schema, renamed)) => {
            tool.schema = schema;
            if !renamed.is_empty() {
                changed.insert(tool.name.clone(), renamed);
            }
            true
        }
        None => {
            notes.push(StepNote::ToolLeftOut(tool.name.clone()));
            false
        }
    });
    (changed, notes)
}

/// Restores the names of properties in the arguments of a call.
pub(crate) fn restore_arguments(arguments: &str, renamed: &Renamed) -> Option<String> {
    let mut value: Value = serde_json::from_str(arguments).ok()?;
    restore_names(&mut value, renamed, 0);
    Some(value.to_string())
}

fn restore_names(value: &mut Value, renamed: &Renamed, depth: usize) {
    match value {
        Value::Object(fields) if depth < DEPTH_MAX => {
            let taken = std::mem::take(fields);
            for (name, mut value) in taken {
                restore_names(&mut value, renamed, depth + 1);
                fields.insert(renamed.get(&name).cloned().unwrap_or(name), value);
            }
        }
        Value::Array(items) if depth < DEPTH_MAX => {
            items.iter_mut().for_each(|item| restore_names(item, renamed, depth + 1));
        }
        _ => {}
    }
}

/// Turns the schema into an object's: merges unions at the top, and drops anything else.
fn object_schema(schema: Value) -> Value {
    let Value::Object(mut fields) = schema else { return json!({"type": "object", "properties": {}}) };
    for (union, is_all) in [("allOf", true), ("anyOf", false), ("oneOf", false)] {
        if let Some(Value::Array(branches)) = fields.remove(union) {
            merge_branches(&mut fields, branches, is_all);
        }
    }
    for refused in ["not", "if", "then", "else", "enum", "const"] {
        fields.remove(refused);
    }
    fields.insert("type".to_owned(), "object".into());
    if !fields.get("properties").is_some_and(Value::is_object) {
        fields.insert("properties".to_owned(), json!({}));
    }
    Value::Object(fields)
}

/// Merges the properties of a union's branches. A property is required where each branch of an alternative requires it.
fn merge_branches(fields: &mut Map<String, Value>, branches: Vec<Value>, is_all: bool) {
    let mut properties = match fields.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    let names = |of: Option<&Value>| -> Vec<String> {
        let names = of.and_then(Value::as_array).into_iter().flatten();
        names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let mut required = names(fields.get("required"));
    let mut shared: Option<Vec<String>> = None;
    for branch in branches {
        let Value::Object(branch) = object_schema(branch) else { continue };
        let own = names(branch.get("required"));
        shared = Some(match shared {
            Some(shared) if !is_all => shared.into_iter().filter(|name| own.contains(name)).collect(),
            Some(shared) => [shared, own].concat(),
            None => own,
        });
        if let Some(Value::Object(more)) = branch.get("properties") {
            for (name, schema) in more {
                properties.entry(name.clone()).or_insert_with(|| schema.clone());
            }
        }
    }
    required.extend(shared.unwrap_or_default());
    required.sort_unstable();
    required.dedup();
    fields.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() {
        fields.insert("required".to_owned(), required.into());
    }
}

/// Repairs a schema and its nested schemas.
fn mend_schema(schema: &mut Value, renamed: &mut Renamed, depth: usize) {
    let Value::Object(fields) = schema else { return };
    if depth >= DEPTH_MAX {
        fields.clear();
        return;
    }
    for keyword in ["$schema", "$id", "id", "$comment"] {
        if fields.get(keyword).is_some_and(Value::is_string) {
            fields.remove(keyword);
        }
    }
    mend_type(fields);
    mend_older_drafts(fields);
    let is_of = |fields: &Map<String, Value>, kind: &str| match fields.get("type") {
        Some(Value::String(only)) => only == kind,
        Some(Value::Array(kinds)) => kinds.iter().any(|other| other == kind),
        _ => false,
    };
    // Vendors refuse a text with keywords that only objects have.
    if fields.contains_key("type") && !is_of(fields, "object") {
        for keyword in OF_OBJECTS {
            fields.remove(keyword);
        }
    }
    rename_properties(fields, renamed);
    if is_of(fields, "array") && !fields.get("items").is_some_and(|items| items.is_object()) {
        fields.insert("items".to_owned(), json!({}));
    }
    if matches!(fields.get("enum"), Some(value) if value.as_array().is_none_or(Vec::is_empty)) {
        fields.remove("enum");
    }
    for keyword in SCHEMA {
        fields.get_mut(keyword).into_iter().for_each(|inner| mend_schema(inner, renamed, depth + 1));
    }
    for keyword in LISTS {
        match fields.get_mut(keyword) {
            Some(Value::Array(list)) if !list.is_empty() => {
                list.iter_mut().for_each(|inner| mend_schema(inner, renamed, depth + 1));
            }
            Some(_) => {
                fields.remove(keyword);
            }
            None => {}
        }
    }
    for keyword in OBJECTS {
        match fields.get_mut(keyword) {
            Some(Value::Object(inner)) => {
                for schema in inner.values_mut() {
                    if !schema.is_object() {
                        *schema = json!({});
                    }
                    mend_schema(schema, renamed, depth + 1);
                }
            }
            Some(_) => {
                fields.remove(keyword);
            }
            None => {}
        }
    }
    mend_required(fields);
}

/// Removes types that do not exist.
fn mend_type(fields: &mut Map<String, Value>) {
    let is_type = |kind: &Value| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
    match fields.get_mut("type") {
        Some(Value::Array(kinds)) => {
            kinds.retain(is_type);
            if kinds.is_empty() {
                fields.remove("type");
            }
        }
        Some(kind) if !is_type(kind) => {
            let small = kind.as_str().map(str::to_lowercase);
            match small.as_deref() {
                Some(small) if TYPES.contains(&small) => *kind = small.into(),
                Some("int" | "long") => *kind = "integer".into(),
                Some("float" | "double" | "decimal") => *kind = "number".into(),
                Some("str" | "text" | "date" | "datetime" | "uuid") => *kind = "string".into(),
                Some("bool") => *kind = "boolean".into(),
                Some("dict" | "map") => *kind = "object".into(),
                Some("tuple" | "set") => *kind = "array".into(),
                _ => {
                    fields.remove("type");
                }
            }
        }
        _ => {}
    }
}

/// Replaces keywords of older drafts by keywords of 2020-12.
fn mend_older_drafts(fields: &mut Map<String, Value>) {
    if fields.get("items").is_some_and(Value::is_array)
        && let Some(items) = fields.remove("items")
    {
        fields.insert("prefixItems".to_owned(), items);
        if let Some(rest) = fields.remove("additionalItems").filter(Value::is_object) {
            fields.insert("items".to_owned(), rest);
        }
    }
    for (exclusive, inclusive) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        match fields.get(exclusive) {
            Some(Value::Bool(true)) => {
                fields.remove(exclusive);
                if let Some(bound) = fields.remove(inclusive) {
                    fields.insert(exclusive.to_owned(), bound);
                }
            }
            Some(value) if !value.is_number() => {
                fields.remove(exclusive);
            }
            _ => {}
        }
    }
}

/// Changes names of properties that vendors refuse.
fn rename_properties(fields: &mut Map<String, Value>, renamed: &mut Renamed) {
    let Some(Value::Object(properties)) = fields.get("properties") else { return };
    if properties.keys().all(|name| is_plain(name)) {
        return;
    }
    let taken: Vec<String> = properties.keys().filter(|name| is_plain(name)).cloned().collect();
    let mut sent_as: BTreeMap<String, String> = BTreeMap::new();
    for name in properties.keys().filter(|name| !is_plain(name)) {
        let letter = |letter: char| if is_plain_letter(letter) { letter } else { '_' };
        let base: String = name.chars().map(letter).take(NAME_MAX_CHARS - 4).collect();
        let base = if base.is_empty() { "_".to_owned() } else { base };
        let free = |sent: &String| {
            !taken.contains(sent) && renamed.get(sent).is_none_or(|original| original == name)
        };
        let numbered = (2..1000).map(|number| format!("{base}{number}"));
        let Some(sent) = std::iter::once(base.clone()).chain(numbered).find(free) else { continue };
        renamed.insert(sent.clone(), name.clone());
        sent_as.insert(name.clone(), sent);
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        let old = std::mem::take(properties);
        properties.extend(
            old.into_iter().map(|(name, schema)| (sent_as.get(&name).cloned().unwrap_or(name), schema)),
        );
    }
    if let Some(Value::Array(required)) = fields.get_mut("required") {
        for name in required.iter_mut() {
            if let Some(sent) = name.as_str().and_then(|name| sent_as.get(name)) {
                *name = sent.as_str().into();
            }
        }
    }
}

/// Removes a `required` that is not a list, and names of properties that do not exist.
fn mend_required(fields: &mut Map<String, Value>) {
    let known = |name: &str, fields: &Map<String, Value>| {
        fields.get("properties").and_then(Value::as_object).is_some_and(|of| of.contains_key(name))
    };
    match fields.get("required") {
        None => {}
        Some(Value::Array(names)) => {
            let mut kept: Vec<Value> = Vec::new();
            for name in names {
                if name.as_str().is_some_and(|text| known(text, fields)) && !kept.contains(name) {
                    kept.push(name.clone());
                }
            }
            if kept.is_empty() {
                fields.remove("required");
            } else {
                fields.insert("required".to_owned(), kept.into());
            }
        }
        Some(_) => {
            fields.remove("required");
        }
    }
}

fn is_plain(name: &str) -> bool {
    (1..=NAME_MAX_CHARS).contains(&name.len()) && name.chars().all(is_plain_letter)
}

fn is_plain_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reshape_value(schema: &Value) -> (Value, Renamed) {
        let tool = ToolSpec { name: "t".into(), description: String::new(), schema: schema.to_string() };
        let (json, renamed) = reshape_schema(&tool).unwrap();
        (serde_json::from_str(&json).unwrap(), renamed)
    }

    #[test]
    fn accepted_schema_sent_as_written() {
        let schema = r#"{"type": "object",  "properties": {"a": {"type": "string"}}, "required": ["a"]}"#;
        let tool = ToolSpec { name: "t".into(), description: String::new(), schema: schema.into() };
        assert_eq!(reshape_schema(&tool).unwrap().0, schema);
    }

    #[test]
    fn top_level_union_becomes_object() {
        let branch = |name: &str| {
            json!({"type": "object", "properties": {name: {"type": "string"}, "both": {}},
                "required": [name, "both"]})
        };
        for union in ["anyOf", "oneOf"] {
            let (sent, _) = reshape_value(&json!({ union: [branch("a"), branch("b")] }));
            let expected = json!({"type": "object", "required": ["both"],
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}, "both": {}}});
            assert_eq!(sent, expected, "{union}");
        }
        let (all, _) = reshape_value(&json!({"type": "object", "allOf": [branch("a"), branch("b")]}));
        assert_eq!(all["required"], json!(["a", "b", "both"]));
        for odd in [json!(true), json!(null), json!([]), json!("x"), json!({}), json!({"type": "string"})] {
            assert_eq!(reshape_value(&odd).0["type"], "object", "{odd}");
            assert!(reshape_value(&odd).0["properties"].is_object(), "{odd}");
        }
    }

    #[test]
    fn odd_keywords_mended_at_depth() {
        let odd = json!({"$schema": "http://json-schema.org/draft-04/schema#", "type": "object",
            "properties": {
                "list": {"type": "array"},
                "pair": {"type": "array", "items": [{"type": "int"}, {"type": "array"}]},
                "over": {"type": "number", "minimum": 1, "exclusiveMinimum": true},
                "any": {"type": "any", "required": true, "enum": []},
                "free": true,
                "text": {"type": "string", "properties": {"x": {}}, "required": ["x"],
                    "additionalProperties": false},
                "either": {"type": ["string", "object"], "properties": {"x": {}}},
                "nested": {"type": ["object", "undefined"], "properties": {"x": {"type": "array"}},
                    "required": ["x", "gone"]},
            }, "required": ["list", "gone", "list"]});
        let (sent, _) = reshape_value(&odd);
        let expected = json!({"type": "object", "properties": {
            "list": {"type": "array", "items": {}},
            "pair": {"type": "array", "items": {},
                "prefixItems": [{"type": "integer"}, {"type": "array", "items": {}}]},
            "over": {"type": "number", "exclusiveMinimum": 1},
            "any": {},
            "free": {},
            "text": {"type": "string"},
            "either": {"type": ["string", "object"], "properties": {"x": {}}},
            "nested": {"type": ["object"], "properties": {"x": {"type": "array", "items": {}}},
                "required": ["x"]},
        }, "required": ["list"]});
        assert_eq!(sent, expected);
    }

    #[test]
    fn odd_property_names_are_restored() {
        let odd = json!({"type": "object", "required": ["$filter", "filter[name]"], "properties": {
            "$filter": {"type": "string"}, "filter[name]": {"type": "string"}, "_filter": {"type": "string"},
            "": {"type": "object", "properties": {"žluť": {"type": "string"}}}}});
        let (sent, renamed) = reshape_value(&odd);
        let names: Vec<&String> = sent["properties"].as_object().unwrap().keys().collect();
        assert!(names.iter().all(|name| is_plain(name)) && names.len() == 4, "{names:?}");
        assert_eq!(sent["required"].as_array().unwrap().len(), 2);
        let nested = renamed.iter().find(|(_, original)| original.is_empty()).unwrap().0;
        let called = json!({"_filter2": "a", "filter_name_": "b", "_filter": "c", nested: {"_lu_": "d"}});
        let restored: Value =
            serde_json::from_str(&restore_arguments(&called.to_string(), &renamed).unwrap()).unwrap();
        let expected = json!({"$filter": "a", "filter[name]": "b", "_filter": "c", "": {"žluť": "d"}});
        assert_eq!(restored, expected);
        assert_eq!(restore_arguments("{\"cut", &renamed), None);
    }

    #[test]
    fn deep_schema_is_bounded() {
        let mut deep = json!({"type": "string"});
        for _ in 0..100 {
            deep = json!({"type": "array", "items": deep});
        }
        let (sent, _) = reshape_value(&json!({"type": "object", "properties": {"a": deep}}));
        assert!(sent.to_string().matches("array").count() < DEPTH_MAX);
    }
}
