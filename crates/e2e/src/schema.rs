//! The published OpenAPI schema: its operations and their responses, for comparison with recorded responses.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use conformance::met::Met;

/// The methods that a path of a schema may have.
const METHODS: [&str; 7] = ["get", "head", "post", "put", "patch", "delete", "options"];

/// An operation and its responses.
#[derive(Debug, Clone)]
pub struct Documented {
    /// The method, in upper case.
    pub method: String,
    /// The path, with parameters in braces.
    pub path: String,
    /// The error codes of each status; empty for a status without an error body.
    pub answers: BTreeMap<u16, BTreeSet<String>>,
}

#[derive(Debug)]
pub struct Schema {
    pub operations: Vec<Documented>,
    pub codes: BTreeSet<String>,
}

impl Schema {
    /// Parses a schema in YAML.
    ///
    /// # Panics
    /// Panics if it is invalid.
    #[must_use]
    pub fn from_yaml(yaml: &str) -> Self {
        let root: Value = yaml_serde::from_str(yaml).expect("a document in YAML");
        let mut operations = Vec::new();
        for (path, item) in root["paths"].as_object().expect("paths") {
            for (method, operation) in item.as_object().expect("the operations of a path") {
                if METHODS.contains(&method.as_str()) {
                    let answers = documented_answers(&root, operation);
                    let (method, path) = (method.to_uppercase(), path.clone());
                    operations.push(Documented { method, path, answers });
                }
            }
        }
        let codes =
            root["components"]["schemas"]["KnownErrorCode"]["enum"].as_array().expect("the error codes");
        let codes = codes.iter().filter_map(|code| code.as_str().map(str::to_owned)).collect();
        Self { operations, codes }
    }

    /// Returns the operation of a request, if any. `HEAD` counts as `GET`.
    #[must_use]
    pub fn find_operation(&self, method: &str, path: &str) -> Option<&Documented> {
        let method = if method == "HEAD" { "GET" } else { method };
        let fits =
            |operation: &&Documented| operation.method == method && matches_template(&operation.path, path);
        // A path without parameters takes precedence.
        self.operations.iter().filter(fits).min_by_key(|operation| operation.path.matches('{').count())
    }

    /// Returns the recorded responses that are not documented.
    #[must_use]
    pub fn undocumented_responses(&self, met: &[Met]) -> Vec<String> {
        met.iter()
            // An oversized head is rejected before it is parsed.
            .filter(|met| !matches!(met.status, 414 | 431) || met.code.is_some())
            .filter_map(|met| {
                let operation = self.find_operation(&met.method, &met.path)?;
                let known = operation.answers.get(&met.status).is_some_and(|codes| match &met.code {
                    Some(code) => codes.contains(code),
                    None => true,
                });
                (!known).then(|| format!("{} {}: {} {:?}", met.method, met.path, met.status, met.code))
            })
            .collect()
    }

    /// Returns the documented responses that were not recorded: operation, status, and code if it has one.
    #[must_use]
    pub fn unmet_responses(&self, met: &[Met]) -> Vec<(&Documented, u16, Option<&str>)> {
        let mut seen = BTreeSet::new();
        for met in met {
            if let Some(operation) = self.find_operation(&met.method, &met.path) {
                seen.insert((&operation.method, &operation.path, met.status, met.code.as_deref()));
            }
        }
        let mut unmet = Vec::new();
        for operation in &self.operations {
            for (status, codes) in &operation.answers {
                let none = [None];
                let codes: Vec<Option<&str>> = if codes.is_empty() {
                    none.to_vec()
                } else {
                    codes.iter().map(|code| Some(code.as_str())).collect()
                };
                for code in codes {
                    if !seen.contains(&(&operation.method, &operation.path, *status, code)) {
                        unmet.push((operation, *status, code));
                    }
                }
            }
        }
        unmet
    }
}

fn documented_answers(root: &Value, operation: &Value) -> BTreeMap<u16, BTreeSet<String>> {
    let mut answers = BTreeMap::new();
    for (status, response) in operation["responses"].as_object().expect("responses") {
        let response = match response["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
            Some(name) => &root["components"]["responses"][name],
            None => response,
        };
        let examples = &response["content"]["application/json"]["examples"];
        let status: u16 = status.parse().expect("a status");
        let codes = examples.as_object().into_iter().flatten().filter(|_| status >= 400);
        answers.insert(status, codes.map(|(code, _)| code.clone()).collect());
    }
    answers
}

/// Matches a path against a template, whose last parameter also matches slashes.
fn matches_template(template: &str, path: &str) -> bool {
    if let Some(before) = template.strip_suffix("/{path}") {
        return path == before || path.strip_prefix(before).is_some_and(|rest| rest.starts_with('/'));
    }
    let (mut wanted, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(name), Some(part)) if name == part || name.starts_with('{') && !part.is_empty() => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = "
openapi: 3.1.0
paths:
  /a:
    get: {responses: {'200': {description: x}, '404': {$ref: '#/components/responses/Gone'}}}
  /a/{id}:
    get: {responses: {'200': {description: x}}}
  /f/{path}:
    get: {responses: {'200': {description: x}}}
components:
  responses:
    Gone: {content: {application/json: {examples: {NOT_FOUND: {}}}}}
  schemas:
    KnownErrorCode: {enum: [NOT_FOUND]}
";

    fn sample_met(method: &str, path: &str, status: u16, code: Option<&str>) -> Met {
        Met { method: method.to_owned(), path: path.to_owned(), status, code: code.map(str::to_owned) }
    }

    #[test]
    fn schema_compares_recorded_responses() {
        let schema = Schema::from_yaml(SCHEMA);
        assert_eq!(schema.codes.len(), 1);
        let all = [
            sample_met("GET", "/a", 200, None),
            sample_met("GET", "/a", 404, Some("NOT_FOUND")),
            sample_met("HEAD", "/a/1", 200, None),
            sample_met("GET", "/f/x/y", 200, None),
            sample_met("GET", "/elsewhere", 418, None),
        ];
        assert!(schema.undocumented_responses(&all).is_empty() && schema.unmet_responses(&all).is_empty());
        assert_eq!(schema.unmet_responses(&all[..3]).len(), 1);
        let odd = [sample_met("GET", "/a", 404, Some("OTHER")), sample_met("GET", "/a/1", 404, None)];
        assert_eq!(schema.undocumented_responses(&odd).len(), 2);
    }
}
