//! Compares the document with the routes, the codes, and real responses.

mod shape;
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use domain::limits::{ATTACHMENTS_MAX, TITLE_MAX_CHARS};
use domain::scope::Permission;
use futures_util::FutureExt;
use serde_json::{Value, json};

use self::shape::{check_value, resolve_schema};
use super::{build_interface, publish_json, serve_schema_yaml};
use crate::error::Code;
use crate::operations::{OPERATIONS, Operation};

fn interface_document() -> Value {
    serde_json::to_value(build_interface()).unwrap()
}

/// Returns each operation with its method and path.
fn document_operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let each = paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().iter();
        methods.map(move |(method, operation)| (format!("{method} {path}"), operation))
    });
    each.collect()
}

/// Returns each response of an operation with its status.
fn operation_responses<'a>(document: &'a Value, operation: &'a Value) -> Vec<(u16, &'a Value)> {
    let each = operation["responses"].as_object().unwrap().iter();
    each.map(|(status, response)| (status.parse().unwrap(), resolve_schema(document, response).unwrap()))
        .collect()
}

#[test]
fn openapi_yaml_matches_interface() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.yaml");
    let made = build_interface().to_yaml().unwrap();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&golden, &made).unwrap();
    }
    let reviewed = std::fs::read_to_string(&golden).unwrap();
    let differs = made.lines().zip(reviewed.lines()).position(|(made, reviewed)| made != reviewed);
    assert!(
        made == reviewed,
        "the schema has changed, first in line {differs:?}: renew it with UPDATE_EXPECT=1, and look at it"
    );
}

/// Returns the operations of the router, in its notation of paths.
fn routed_operations() -> Vec<String> {
    let each = OPERATIONS.iter().flat_map(|operation| {
        let method = operation.method.as_str().to_lowercase();
        operation.route_paths().map(move |path| format!("{method} {path}"))
    });
    each.collect()
}

#[test]
fn routes_and_operations_are_the_same() {
    let document = interface_document();
    let published: BTreeSet<String> =
        document_operations(&document).into_iter().map(|(name, _)| name).collect();
    let declared = OPERATIONS.iter().map(|operation| {
        let method = operation.method.as_str().to_lowercase();
        format!("{method} {}", operation.path.replace("{*path}", "{path}"))
    });
    assert_eq!(published, declared.collect());
}

#[test]
fn every_operation_has_its_permissions() {
    let document = interface_document();
    let listed = document_operations(&document);
    for (name, operation) in &listed {
        let (method, path) = name.split_once(' ').unwrap();
        let method = axum::http::Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
        let found = Operation::find_by_route(&method, &path.replace("{path}", "{*path}"));
        let found = found.unwrap_or_else(|| panic!("{name} is not among the operations"));
        assert_eq!(operation["operationId"], found.id, "{name}");
        // Operations that do not accept every key can reject a key's scope.
        let narrow = found.needs.len() < Permission::ALL.len();
        let forbidden = operation["responses"]["403"].to_string();
        assert_eq!(forbidden.contains("KEY_SCOPE"), narrow, "{name}");
    }
    assert_eq!(listed.len(), OPERATIONS.len());
    for name in routed_operations() {
        let (method, path) = name.split_once(' ').unwrap();
        let method = axum::http::Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
        assert!(Operation::find_by_route(&method, path).is_some(), "{name}");
    }
}

#[test]
fn openapi_lists_each_code_with_status() {
    let document = interface_document();
    let mut published = BTreeSet::new();
    for (name, operation) in document_operations(&document) {
        for (status, response) in operation_responses(&document, operation) {
            if status < 400 {
                continue;
            }
            let examples = response.pointer("/content/application~1json/examples");
            assert_eq!(examples.is_none(), status == 401, "{name} {status}");
            for (code, example) in examples.and_then(Value::as_object).into_iter().flatten() {
                assert_eq!(example["value"]["code"], **code, "{name} {status}");
                published.insert((code.clone(), status));
            }
        }
    }
    // No operation has this error: it is the response of a path without the operation.
    let lacking =
        "/components/responses/MethodNotAllowed/content/application~1json/examples/METHOD_NOT_ALLOWED";
    assert_eq!(document.pointer(lacking).unwrap()["value"]["code"], "METHOD_NOT_ALLOWED");
    published.insert(("METHOD_NOT_ALLOWED".to_owned(), 405));
    let mut known: BTreeSet<(String, u16)> = Code::all()
        .map(|code| code.on_the_wire())
        .map(|(word, status)| (word.to_owned(), status.as_u16()))
        .collect();
    // Reading the state of a missing machine is "not found".
    known.insert(("NO_MACHINE".to_owned(), 404));
    assert_eq!(published, known);
    let words = document["components"]["schemas"]["KnownErrorCode"]["enum"].as_array().unwrap();
    assert!(words.iter().eq(Code::all().map(|code| code.on_the_wire().0)), "{words:?}");
    let introduction = document["info"]["description"].as_str().unwrap();
    assert!(
        introduction.split_whitespace().collect::<Vec<_>>().join(" ").contains("405 `METHOD_NOT_ALLOWED`")
    );
}

#[test]
fn openapi_operations_need_key_and_summary() {
    let document = interface_document();
    assert_eq!(document["security"], json!([{"apiKey": []}]));
    let tags: Vec<&Value> = document["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
    let mut ids = BTreeSet::new();
    for (name, operation) in document_operations(&document) {
        assert!(operation.get("security").is_none(), "{name}");
        for field in ["summary", "description"] {
            assert!(
                operation[field].as_str().is_some_and(|field| !field.is_empty()),
                "{name} has no {field}"
            );
        }
        assert!(tags.contains(&&operation["tags"][0]), "{name}");
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{name}");
        let statuses: Vec<u16> =
            operation_responses(&document, operation).iter().map(|(status, _)| *status).collect();
        assert!(statuses.contains(&401) && statuses.contains(&500), "{name}");
        assert!(statuses.iter().any(|status| *status < 300), "{name}");
        for (status, response) in operation_responses(&document, operation) {
            assert!(!response["description"].as_str().unwrap().is_empty(), "{name} {status}");
        }
        for parameter in operation.get("parameters").and_then(Value::as_array).into_iter().flatten() {
            assert!(parameter["description"].is_string() && !parameter["example"].is_null(), "{parameter}");
        }
    }
}

/// The statuses that the interface promises for each operation, besides 401, 414, 429, 431, 500 and 503.
const STATUSES: &[(&str, &[u16])] = &[
    ("get /api/v1/vm", &[200, 404]),
    ("post /api/v1/vm/start", &[202, 409]),
    ("post /api/v1/vm/stop", &[202, 409]),
    ("get /api/v1/models", &[200]),
    ("get /api/v1/jurisdictions", &[200]),
    ("get /api/v1/skills", &[200]),
    ("get /api/v1/agents", &[200]),
    ("post /api/v1/files", &[201, 400, 403, 404, 408, 409, 413]),
    ("get /api/v1/files/{path}", &[200, 206, 304, 400, 403, 404, 416]),
    ("delete /api/v1/files/{path}", &[204, 400, 403, 404, 409]),
    ("get /api/v1/directories", &[200, 403, 409]),
    ("get /api/v1/directories/{path}", &[200, 400, 403, 404, 409]),
    ("post /api/v1/directories/{path}", &[201, 400, 403, 404, 409]),
    ("post /api/v1/chats", &[201, 202, 400, 403, 404, 408, 409, 413]),
    ("get /api/v1/chats", &[200, 400]),
    ("get /api/v1/chats/{chatId}", &[200, 404]),
    ("patch /api/v1/chats/{chatId}", &[200, 400, 404, 408, 413]),
    ("delete /api/v1/chats/{chatId}", &[204, 404]),
    ("post /api/v1/chats/{chatId}/stop", &[202, 404]),
    ("get /api/v1/chats/{chatId}/messages/{messageId}", &[200, 304, 404]),
    ("get /api/v1/chats/{chatId}/messages/{messageId}/events", &[200, 204, 404]),
    ("get /api/v1/chats/{chatId}/events", &[200, 404]),
    ("post /api/v1/chats/{chatId}/messages/{messageId}/calls/{callId}", &[200, 400, 404, 408, 409, 413]),
];

#[test]
fn openapi_operations_list_own_statuses() {
    let document = interface_document();
    let published: BTreeMap<String, BTreeSet<u16>> = document_operations(&document)
        .into_iter()
        .map(|(name, operation)| {
            let statuses = operation_responses(&document, operation).into_iter().map(|(status, _)| status);
            (name, statuses.collect())
        })
        .collect();
    let promised = STATUSES.iter().map(|(name, statuses)| {
        // Any key may read the state of the machine; all other operations may exceed a key's scope.
        let beyond = (*name != "get /api/v1/vm").then_some(403);
        let all = statuses.iter().copied().chain([401, 414, 429, 431, 500, 503]).chain(beyond);
        ((*name).to_owned(), all.collect())
    });
    assert_eq!(published, promised.collect());
}

#[test]
fn openapi_bodies_and_headers_have_examples() {
    let document = interface_document();
    let mut seen = 0;
    for (name, operation) in document_operations(&document) {
        let answered = operation_responses(&document, operation).into_iter().map(|(_, response)| response);
        for value in answered.chain(operation.get("requestBody")) {
            for (kind, content) in value.get("content").and_then(Value::as_object).into_iter().flatten() {
                // The content of a file is arbitrary.
                let shown = content.get("example").or(content.get("examples")).is_some() || kind == "*/*";
                assert!(shown, "{name}: {kind} has no example");
                seen += 1;
            }
            for (header, value) in value.get("headers").and_then(Value::as_object).into_iter().flatten() {
                let value = resolve_schema(&document, value).unwrap();
                assert!(!value["description"].as_str().unwrap().is_empty(), "{name}: {header}");
                assert!(value["example"] != Value::Null, "{name}: {header} has no example");
                check_value(&document, &value["schema"], &value["example"]).unwrap();
                seen += 1;
            }
        }
    }
    assert!(seen > 100, "{seen} bodies and headers");
}

#[test]
fn openapi_responses_name_their_request() {
    let document = interface_document();
    for (name, operation) in document_operations(&document) {
        for (status, response) in operation_responses(&document, operation) {
            assert!(response["headers"]["X-Request-Id"].is_object(), "{name}: {status}");
        }
    }
}

/// Returns every schema in the document, including nested ones.
fn all_schemas(value: &Value) -> Vec<&Value> {
    let mut found = Vec::new();
    let mut left: Vec<&Value> = value["components"]["schemas"].as_object().unwrap().values().collect();
    while let Some(schema) = left.pop() {
        found.push(schema);
        left.extend(
            schema.get("properties").and_then(Value::as_object).into_iter().flat_map(|all| all.values()),
        );
        left.extend(schema.get("items"));
        for shapes in ["oneOf", "anyOf"] {
            left.extend(schema.get(shapes).and_then(Value::as_array).into_iter().flatten());
        }
    }
    found
}

#[test]
fn openapi_fields_have_description_and_example() {
    let document = interface_document();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(schema["description"].is_string(), "{name}");
        for (field, shape) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let referred = resolve_schema(&document, shape).unwrap();
            assert!(
                shape["description"].is_string() || referred["description"].is_string(),
                "{name}.{field}"
            );
            let of_items = shape.get("items").map(|items| resolve_schema(&document, items).unwrap());
            let shown = [Some(shape), Some(referred), of_items].into_iter().flatten().any(|shape| {
                shape.get("examples").is_some()
                    || shape.get("properties").is_some()
                    || shape.get("oneOf").or(shape.get("anyOf")).is_some()
                    || shape["format"] == "binary"
            });
            assert!(shown, "{name}.{field} has no example");
        }
    }
}

#[test]
fn every_example_fits_its_schema() {
    let document = interface_document();
    let mut seen = 0;
    let mut fits = |schema: &Value, example: &Value| {
        check_value(&document, schema, example).unwrap_or_else(|error| panic!("{example}: {error}"));
        seen += 1;
    };
    for schema in all_schemas(&document) {
        resolve_schema(&document, schema).unwrap();
        for example in schema.get("examples").and_then(Value::as_array).into_iter().flatten() {
            fits(schema, example);
        }
        if let Some(default) = schema.get("default") {
            fits(schema, default);
        }
    }
    for (_, operation) in document_operations(&document) {
        for parameter in operation.get("parameters").and_then(Value::as_array).into_iter().flatten() {
            fits(&parameter["schema"], &parameter["example"]);
        }
        let answered = operation_responses(&document, operation).into_iter().map(|(_, response)| response);
        let bodies = answered.chain(operation.get("requestBody"));
        let contents = bodies.filter_map(|body| body.get("content")?.as_object()).flatten();
        // The example of a stream is a frame; `openapi_event_example_matches_framing` checks it.
        for (_, content) in contents.filter(|(kind, _)| *kind != "text/event-stream") {
            let several = content.get("examples").and_then(Value::as_object).into_iter().flatten();
            for example in several.map(|(_, example)| &example["value"]).chain(content.get("example")) {
                fits(&content["schema"], example);
            }
        }
    }
    assert!(seen > 150, "{seen} examples");
}

#[test]
fn openapi_event_example_matches_framing() {
    let document = interface_document();
    let data = crate::wire::examples::EVENTS.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let answer: Value = serde_json::from_str(data).unwrap();
    check_value(&document, &json!({"$ref": "#/components/schemas/Answer"}), &answer).unwrap();
    assert_eq!(answer, crate::wire::examples::answer_begun());
    let id = crate::wire::examples::EVENTS.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
    assert!(crate::wire::read_event_id(id).is_some());
}

#[test]
fn openapi_events_use_answer_schema() {
    let document = interface_document();
    let answer = json!({"$ref": "#/components/schemas/Answer"});
    let streams = document_operations(&document)
        .into_iter()
        .filter_map(|(_, operation)| operation.pointer("/responses/200/content/text~1event-stream/schema"));
    assert_eq!(streams.collect::<Vec<_>>(), [&answer; 2]);
    assert_eq!(
        document["components"]["schemas"]["StreamEvent"]["properties"]["data"]["$ref"],
        answer["$ref"]
    );
}

#[test]
fn openapi_schema_accepts_unknown_codes() {
    let document = interface_document();
    for name in ["ErrorCode", "AnswerErrorCode"] {
        let schema = json!({"$ref": format!("#/components/schemas/{name}")});
        for code in ["INTERNAL", "OF_A_LATER_VERSION"] {
            check_value(&document, &schema, &json!(code)).unwrap();
        }
        assert!(check_value(&document, &schema, &json!(7)).is_err());
    }
}

/// Globals of languages in which clients are generated. A type of the same name would hide them.
const GLOBALS: &[&str] = &[
    "Array",
    "Blob",
    "Boolean",
    "Buffer",
    "Class",
    "Date",
    "Document",
    "Element",
    "Enum",
    "Error",
    "Event",
    "Exception",
    "File",
    "Function",
    "Headers",
    "Image",
    "Integer",
    "Iterator",
    "List",
    "Location",
    "Map",
    "Node",
    "Number",
    "Object",
    "Option",
    "Path",
    "Promise",
    "Range",
    "Record",
    "Request",
    "Response",
    "Result",
    "Set",
    "String",
    "Symbol",
    "Text",
    "Thread",
    "Type",
    "URL",
    "Vec",
    "Void",
];

#[test]
fn openapi_schemas_avoid_global_names() {
    let document = interface_document();
    let names: Vec<&String> = document["components"]["schemas"].as_object().unwrap().keys().collect();
    assert!(names.len() > 40, "{names:?}");
    assert!(!names.iter().any(|name| GLOBALS.contains(&name.as_str())), "{names:?}");
}

#[test]
fn openapi_links_resolve_with_parameters() {
    let document = interface_document();
    let operations = document_operations(&document);
    let mut seen = 0;
    for (name, operation) in &operations {
        for (_, response) in operation_responses(&document, operation) {
            let links = response.get("links").and_then(Value::as_object).into_iter().flatten();
            for (_, link) in links {
                let target = operations.iter().find(|(_, one)| one["operationId"] == link["operationId"]);
                let (_, target) = target.unwrap_or_else(|| panic!("{name}: {link} leads nowhere"));
                let wanted = target["parameters"].as_array().unwrap();
                let wanted = wanted.iter().filter(|one| one["in"] == "path").map(|one| &one["name"]);
                let given = link["parameters"].as_object().unwrap();
                assert!(wanted.eq(given.keys()), "{name}: {link}");
                let body =
                    resolve_schema(&document, &response["content"]["application/json"]["schema"]).unwrap();
                for from in given.values() {
                    let field = from.as_str().unwrap().strip_prefix("$response.body#/").unwrap();
                    assert!(body["properties"].get(field).is_some(), "{name}: {link}");
                    seen += 1;
                }
            }
        }
    }
    assert_eq!(seen, 2 * 9 + 2 + 2);
}

#[test]
fn bounds_are_those_that_are_applied() {
    let document = interface_document();
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["Question"]["properties"]["filePaths"]["maxItems"], ATTACHMENTS_MAX);
    assert_eq!(schemas["ChatChange"]["properties"]["title"]["maxLength"], TITLE_MAX_CHARS);
    let path = &document["paths"]["/api/v1/files/{path}"]["get"]["parameters"][0];
    assert_eq!(path["schema"]["maxLength"], workspace::PATH_MAX_BYTES);
}

#[test]
fn openapi_json_is_published() {
    let published = publish_json(HeaderMap::new()).now_or_never().unwrap();
    assert_eq!(published.headers()[header::CONTENT_TYPE], "application/json");
    let body = axum::body::to_bytes(published.into_body(), usize::MAX).now_or_never().unwrap().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), interface_document());
}

#[test]
fn openapi_document_honours_if_none_match() {
    let asked = |tag: Option<&HeaderValue>| {
        let known = tag.map(|tag| (header::IF_NONE_MATCH, tag.clone()));
        serve_schema_yaml(known.into_iter().collect::<HeaderMap>()).now_or_never().unwrap()
    };
    let first = asked(None);
    assert_eq!(first.status(), StatusCode::OK);
    assert_eq!(first.headers()[header::CONTENT_TYPE], "application/yaml");
    let tag = &first.headers()[header::ETAG];
    assert_eq!(asked(Some(tag)).status(), StatusCode::NOT_MODIFIED);
    assert_eq!(asked(Some(&HeaderValue::from_static("\"other\""))).status(), StatusCode::OK);
}
