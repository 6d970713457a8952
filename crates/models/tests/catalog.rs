//! Tests the catalog with the fake vendor.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use domain::catalog::{Localized, ModelStatus, ProviderName};
use domain::step::{StepEvent, StepRequest, TranscriptItem};
use domain::time::{Clock, Timestamp};
use futures_util::StreamExt;
use models::catalog::READER_ID;
use models::{Catalog, ModelConfig, ProbeError, VendorConfig, VendorsConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[derive(Default)]
struct AtomicClock(AtomicI64);

impl Clock for AtomicClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed))
    }
}

fn new_catalog(base_url: Option<String>) -> Catalog {
    let openai =
        base_url.map(|base_url| VendorConfig { base_url: Some(base_url), ..VendorConfig::default() });
    Catalog::new(VendorsConfig { openai, ..VendorsConfig::default() }, Arc::new(AtomicClock::default()))
        .unwrap()
}

fn question_request(question: &str) -> StepRequest {
    StepRequest {
        images: Vec::new(),
        model: String::new(),
        instructions: String::new(),
        transcript: vec![TranscriptItem::Question { text: question.to_owned(), attachments: vec![] }],
        tools: vec![],
        settings: vec![],
        output_max_tokens: 100,
    }
}

fn default_ids(catalog: &Catalog) -> Vec<String> {
    catalog.model_entries().iter().filter(|entry| entry.default).map(|entry| entry.id.clone()).collect()
}

#[tokio::test]
async fn without_a_vendor_the_reader_answers() {
    let catalog = new_catalog(None);
    catalog.refresh_models().await.unwrap();
    assert_eq!(default_ids(&catalog), [READER_ID]);
    assert!(catalog.model_entries()[0].builtin);
    assert_eq!(catalog.model_status(READER_ID), ModelStatus::Up);
    let events: Vec<_> =
        catalog.find_model(None).unwrap().stream_step(question_request("What is the rent?")).collect().await;
    assert!(matches!(events.last(), Some(Ok(StepEvent::Finished { .. }))), "{events:?}");
}

#[tokio::test]
async fn catalog_lists_vendor_before_reader() {
    let standin = test_support::start_server().await.unwrap();
    let catalog = new_catalog(Some(standin.base_url()));
    assert_eq!(default_ids(&catalog), [""; 0], "the reader answers in nobody's place");
    catalog.refresh_models().await.unwrap();
    assert_eq!(default_ids(&catalog), ["standin"]);
    let entries = catalog.model_entries();
    assert_eq!(entries.last().map(|entry| entry.id.as_str()), Some(READER_ID));
    let reasoning = entries.iter().find(|entry| entry.id == "reasoning").unwrap();
    assert_eq!(reasoning.settings[0].default_value, "MEDIUM");
    assert!(catalog.find_model(Some("nobody")).is_none());
    assert_eq!(catalog.model_status("standin"), ModelStatus::Up, "the listing was the probe");
    assert_eq!(catalog.find_model(Some(READER_ID)).unwrap().entry.id, READER_ID);
}

#[tokio::test]
async fn calls_tell_how_a_model_fares() {
    let standin = test_support::start_server().await.unwrap();
    let catalog = new_catalog(Some(standin.base_url()));
    catalog.refresh_models().await.unwrap();
    let call = async |id: &str| {
        let _events: Vec<_> =
            catalog.find_model(Some(id)).unwrap().stream_step(question_request("Hello")).collect().await;
    };
    call("standin").await;
    assert_eq!(catalog.model_status("standin"), ModelStatus::Up);
    call("too-long").await;
    assert_eq!(catalog.model_status("too-long"), ModelStatus::Up, "a long question is not the model's fault");
    call("denied").await;
    assert_eq!(catalog.model_status("denied"), ModelStatus::Degraded);
    call("denied").await;
    call("denied").await;
    assert_eq!(catalog.model_status("denied"), ModelStatus::Down);
    assert_eq!(standin.requests()[0].requested_model(), "standin", "the vendor's name is asked for");
}

#[tokio::test]
async fn unreachable_vendor_keeps_models_down() {
    let standin = test_support::start_server().await.unwrap();
    let catalog = new_catalog(Some(standin.base_url()));
    catalog.refresh_models().await.unwrap();
    let before = catalog.model_entries();
    drop(standin);
    let mut refused = catalog.refresh_models().await;
    // An open connection may serve one more request.
    for _ in 0..3 {
        if refused.is_err() {
            break;
        }
        refused = catalog.refresh_models().await;
    }
    assert!(refused.is_err());
    assert_eq!(catalog.model_entries(), before);
    assert_eq!(catalog.model_status("standin"), ModelStatus::Down);
}

#[tokio::test]
async fn failing_vendor_downs_own_models_only() {
    let (first, second) =
        (test_support::start_server().await.unwrap(), test_support::start_server().await.unwrap());
    let at = |base_url: String| Some(VendorConfig { base_url: Some(base_url), ..VendorConfig::default() });
    let config = VendorsConfig {
        anthropic: at(first.root_url()),
        openai: at(second.base_url()),
        google: at(second.root_url()),
        ..VendorsConfig::default()
    };
    let catalog = Catalog::new(config.clone(), Arc::new(AtomicClock::default())).unwrap();
    catalog.refresh_models().await.unwrap();
    assert_eq!(default_ids(&catalog), ["standin"]);
    let entries = catalog.model_entries();
    let mut ids: Vec<_> = entries.iter().map(|entry| entry.id.as_str()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), count % 3), (count, 1), "each vendor's models once, and the reader");
    for (id, path) in [("standin", "/v1/messages"), ("openai/standin", "/v1/chat/completions")] {
        let events: Vec<_> =
            catalog.find_model(Some(id)).unwrap().stream_step(question_request("Hello")).collect().await;
        assert!(matches!(events.last(), Some(Ok(StepEvent::Finished { .. }))), "{events:?}");
        let seen = [first.requests(), second.requests()].concat();
        assert_eq!(
            seen.last().map(|seen| (seen.path.as_str(), seen.requested_model())),
            Some((path, "standin"))
        );
    }
    drop(first);
    // An open connection may serve one more request.
    for _ in 0..3 {
        if catalog.refresh_models().await.is_err() {
            break;
        }
    }
    assert_eq!(catalog.model_entries(), entries);
    assert_eq!(catalog.model_status("reasoning"), ModelStatus::Down);
    assert_eq!(catalog.model_status("google/reasoning"), ModelStatus::Up);
    let chosen = VendorsConfig { default_model: Some("google/standin".to_owned()), ..config };
    let catalog = Catalog::new(chosen, Arc::new(AtomicClock::default())).unwrap();
    assert!(catalog.refresh_models().await.is_err());
    assert_eq!(default_ids(&catalog), ["google/standin"]);
}

#[tokio::test]
async fn missing_setting_takes_default() {
    let standin = test_support::start_server().await.unwrap();
    let catalog = new_catalog(Some(standin.base_url()));
    catalog.refresh_models().await.unwrap();
    for (chosen, sent) in [(None, "medium"), (Some("HIGH"), "high")] {
        let mut request = question_request("Hello");
        request.settings.extend(chosen.map(|value| ("reasoningEffort".to_owned(), value.to_owned())));
        let _events: Vec<_> =
            catalog.find_model(Some("reasoning")).unwrap().stream_step(request).collect().await;
        assert_eq!(standin.requests().last().unwrap().body["reasoning_effort"], sent);
    }
}

fn vendors_config(base_url: String, models: Vec<ModelConfig>) -> VendorsConfig {
    let openai = Some(VendorConfig { base_url: Some(base_url), ..VendorConfig::default() });
    VendorsConfig { openai, models, ..VendorsConfig::default() }
}

fn catalog_of(config: VendorsConfig) -> Catalog {
    Catalog::new(config, Arc::new(AtomicClock::default())).unwrap()
}

#[tokio::test]
async fn configuration_overrides_listed_models() {
    let standin = test_support::start_server().await.unwrap();
    let plain = catalog_of(vendors_config(standin.base_url(), vec![]));
    plain.refresh_models().await.unwrap();
    let model = |id: &str| ModelConfig::new(id, ProviderName::OpenAi);
    let options = |text: &str| serde_json::from_str(text).unwrap();
    let models = vec![
        ModelConfig {
            label: Some(Localized::new("a", "b", "c")),
            description: Some(Localized::from_untranslated("d")),
            base_millis: Some(5),
            context_tokens: Some(10_000),
            output_max_tokens: Some(9_000),
            reasoning_effort: Some(true),
            ..model("standin")
        },
        ModelConfig { deprecated: Some(true), ..model("reasoning") },
        ModelConfig { hidden: true, ..model("denied") },
        ModelConfig {
            vendor_name: Some("standin".to_owned()),
            options: options(r#"{"top_p": 0.5}"#),
            ..model("careful")
        },
        // Its identifier is the vendor's name of another model.
        ModelConfig { vendor_name: Some("unlisted".to_owned()), ..model("too-long") },
    ];
    let catalog = catalog_of(vendors_config(standin.base_url(), models));
    let ids = |catalog: &Catalog| -> Vec<String> {
        catalog.model_entries().iter().map(|entry| entry.id.clone()).collect()
    };
    assert!(ids(&catalog).contains(&"standin".to_owned()), "also before a vendor has listed models");
    catalog.refresh_models().await.unwrap();
    catalog.refresh_models().await.unwrap();
    let entries = catalog.model_entries();
    let of = |id: &str| entries.iter().find(|entry| entry.id == id).unwrap();
    let standin_entry = of("standin");
    assert_eq!((standin_entry.label.cs.as_str(), standin_entry.description.sk.as_str()), ("a", "d"));
    assert_eq!((standin_entry.context_tokens, standin_entry.output_max_tokens), (10_000, 5_000));
    assert_eq!(standin_entry.price.base_millis, 5);
    assert_eq!(standin_entry.price.output_millis, models::catalog::DEFAULT_PRICE.output_millis);
    assert_eq!(standin_entry.settings.len(), 1);
    assert!(of("reasoning").deprecated && of("reasoning").settings.is_empty());
    assert!(catalog.find_model(Some("denied")).is_none());
    assert_eq!(of("too-long").vendor_name, "unlisted");
    assert_eq!(of("openai/too-long").vendor_name, "too-long");
    // One model is hidden, and two are added.
    assert_eq!(entries.len(), plain.model_entries().len() + 1, "{:?}", ids(&catalog));
    assert_eq!(catalog.model_status("careful"), ModelStatus::Up);
    assert_eq!(catalog.model_status("too-long"), ModelStatus::Unknown, "it is in no list");
    for (id, top_p) in [("careful", serde_json::json!(0.5)), ("standin", serde_json::Value::Null)] {
        let _events: Vec<_> =
            catalog.find_model(Some(id)).unwrap().stream_step(question_request("Hello")).collect().await;
        let seen = standin.requests();
        let seen = seen.last().unwrap();
        assert_eq!((seen.requested_model(), &seen.body["top_p"]), ("standin", &top_p), "{id}");
    }
    assert_eq!(default_ids(&catalog), default_ids(&plain));
}

#[tokio::test]
async fn only_configured_models_are_listed() {
    let standin = test_support::start_server().await.unwrap();
    let google = ModelConfig::new("elsewhere", ProviderName::Google);
    let mut config = vendors_config(standin.base_url(), vec![google]);
    config.only_configured = true;
    let ids = |catalog: &Catalog| -> Vec<String> {
        catalog.model_entries().iter().map(|entry| entry.id.clone()).collect()
    };
    let catalog = catalog_of(config.clone());
    catalog.refresh_models().await.unwrap();
    assert_eq!(ids(&catalog), [READER_ID], "a catalog is never empty, and nobody answers for the other");
    config.models.push(ModelConfig::new("reasoning", ProviderName::OpenAi));
    let catalog = catalog_of(config);
    catalog.refresh_models().await.unwrap();
    assert_eq!(ids(&catalog), ["reasoning"]);
    assert_eq!(default_ids(&catalog), ["reasoning"]);
    assert!(catalog.find_model(Some(READER_ID)).is_none() && catalog.find_model(Some("standin")).is_none());
}

/// Starts a server that answers every request with this status and body, which can be changed later.
async fn start_server(status: u16, body: &str) -> (String, Arc<Mutex<String>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let answer = Arc::new(Mutex::new(http_response(status, body)));
    let response = answer.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap_or(b'\n'));
            }
            let answer = response.lock().unwrap().clone();
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (base_url, answer)
}

fn http_response(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Returns an address without a listener.
async fn unused_address() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}/v1", listener.local_addr().unwrap())
}

fn vendor_config(base_url: &str) -> Option<VendorConfig> {
    let key = Some(models::Secret::new("sk-secret"));
    Some(VendorConfig { key, base_url: Some(base_url.to_owned()), ..VendorConfig::default() })
}

#[tokio::test]
async fn vendor_outage_names_address_and_cause() {
    let refused = r#"{"error":{"message":"Incorrect API key: sk-secret"}}"#;
    let google = r#"{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT"}}"#;
    for (status, body, trouble, detail) in [
        (401, refused, ProbeError::Key, "the key is refused (401: Incorrect API key: [secret])"),
        (403, "", ProbeError::Key, "the key is refused (403: no reason given)"),
        (400, google, ProbeError::Key, "the key is refused (400: API key not valid.)"),
        (404, "", ProbeError::Refused, "404: no reason given"),
        (500, "", ProbeError::Unreachable, "500: no reason given"),
        (200, "<html>", ProbeError::Unreadable, "its list of models is not JSON"),
        (200, "{\"data\":1}", ProbeError::Unreadable, "its list of models has an unknown form"),
        (200, "{\"data\":[]}", ProbeError::Empty, "it has no models"),
    ] {
        let (base_url, _answer) = start_server(status, body).await;
        let catalog =
            catalog_of(VendorsConfig { openai: vendor_config(&base_url), ..VendorsConfig::default() });
        assert_eq!(catalog.vendors_health()[0].up, None);
        assert!(catalog.refresh_models().await.is_err(), "{status} {body}");
        let health = &catalog.vendors_health()[0];
        assert_eq!((health.up, health.trouble), (Some(false), Some(trouble)), "{status} {body}");
        assert_eq!((health.detail.as_deref(), health.base_url.as_str()), (Some(detail), base_url.as_str()));
        assert_eq!(health.failure_reason(), Some(format!("OPENAI at {base_url}: {detail}")));
        assert_eq!(catalog.explain_outage(), Some(format!("OPENAI: {trouble}")));
        assert_eq!(health.failures.iter().sum::<u64>(), 1);
        assert_eq!(default_ids(&catalog), [""; 0], "the reader answers in nobody's place");
        assert!(catalog.find_model(None).is_none());
        assert!(catalog.find_model(Some(READER_ID)).is_some(), "whoever names it has it");
    }
    let base_url = unused_address().await;
    let catalog = catalog_of(VendorsConfig { openai: vendor_config(&base_url), ..VendorsConfig::default() });
    assert!(catalog.refresh_models().await.is_err());
    let detail = catalog.vendors_health()[0].detail.clone();
    assert_eq!(detail.as_deref(), Some("it cannot be reached: the connection was refused"));
}

#[tokio::test]
async fn recovered_vendor_found_without_restart() {
    let (base_url, answers) = start_server(401, "").await;
    let catalog = catalog_of(VendorsConfig { openai: vendor_config(&base_url), ..VendorsConfig::default() });
    assert!(catalog.refresh_models().await.is_err());
    *answers.lock().unwrap() =
        http_response(200, r#"{"data":[{"id":"m","context_length":1,"max_model_len":9000},null]}"#);
    catalog.refresh_vendor(ProviderName::OpenAi).await.unwrap();
    assert_eq!((default_ids(&catalog), catalog.model_status("m")), (vec!["m".to_owned()], ModelStatus::Up));
    assert_eq!((catalog.vendors_health()[0].failure_reason(), catalog.explain_outage()), (None, None));
    for empty in [http_response(503, ""), http_response(200, "{}"), http_response(401, "")] {
        *answers.lock().unwrap() = empty;
        assert!(catalog.refresh_vendor(ProviderName::OpenAi).await.is_err());
        assert_eq!(
            (default_ids(&catalog), catalog.model_status("m")),
            (vec!["m".to_owned()], ModelStatus::Down)
        );
        assert_eq!(catalog.explain_outage(), None, "its models are known");
    }
}

#[tokio::test]
async fn silent_vendor_models_not_reported_missing() {
    let (listed, _answers) = start_server(200, r#"{"data":[{"id":"m","max_model_len":9000}]}"#).await;
    let dead = unused_address().await;
    let silent = VendorsConfig {
        openai: vendor_config(&listed),
        anthropic: vendor_config(&dead),
        ..VendorsConfig::default()
    };
    let catalog = catalog_of(silent);
    assert!(catalog.refresh_models().await.is_err());
    assert!(catalog.explain_outage().is_some_and(|outage| outage.starts_with("ANTHROPIC: ")));
    assert!(catalog.outage_of("claude-next").is_some_and(|outage| outage.starts_with("ANTHROPIC: ")));
    for nobodys in ["nonsense", "claudette", "gpt-5", ""] {
        assert_eq!(catalog.outage_of(nobodys), None, "{nobodys}");
    }
    let any = catalog_of(VendorsConfig { openai: vendor_config(&dead), ..VendorsConfig::default() });
    assert!(any.refresh_models().await.is_err());
    assert!(any.outage_of("nonsense").is_some(), "no model is known at all");
    let mixed = VendorsConfig {
        openai: vendor_config(&dead),
        anthropic: vendor_config(&dead),
        ..VendorsConfig::default()
    };
    assert!(catalog_of(mixed).outage_of("nonsense").is_some_and(|outage| outage.starts_with("OPENAI: ")));
}

#[tokio::test]
async fn expected_models_shown_as_down() {
    let dead = unused_address().await;
    let config = VendorsConfig {
        anthropic: vendor_config(&dead),
        google: vendor_config(&dead),
        models: vec![ModelConfig::new("mine", ProviderName::Anthropic)],
        ..VendorsConfig::default()
    };
    let catalog = catalog_of(config.clone());
    assert!(catalog.refresh_models().await.is_err());
    let entries = catalog.model_entries();
    for provider in [ProviderName::Anthropic, ProviderName::Google] {
        let of: Vec<_> =
            entries.iter().filter(|entry| entry.provider == provider && !entry.builtin).collect();
        assert!(of.len() > 1, "{entries:?}");
        for entry in of {
            assert_eq!(catalog.model_status(&entry.id), ModelStatus::Down, "{}", entry.id);
        }
    }
    assert!(entries.iter().any(|entry| entry.id == "mine"));
    assert_eq!(default_ids(&catalog).len(), 1);
    assert!(!catalog.find_model(None).unwrap().entry.builtin);
    // A server that is not a vendor's own has no expected models except the operator's.
    let own = ModelConfig::new("mine", ProviderName::OpenAi);
    for (models, default_model, ids) in [
        (vec![], None, vec![READER_ID]),
        (vec![], Some("llama"), vec!["llama", READER_ID]),
        (vec![own.clone()], Some("mine"), vec!["mine", READER_ID]),
        (vec![ModelConfig { hidden: true, ..own }], Some("mine"), vec![READER_ID]),
    ] {
        let default_model = default_model.map(str::to_owned);
        let openai = vendor_config(&dead);
        let catalog = catalog_of(VendorsConfig { openai, models, default_model, ..VendorsConfig::default() });
        assert!(catalog.refresh_models().await.is_err());
        let entries = catalog.model_entries();
        assert_eq!(entries.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>(), ids);
        assert_eq!(default_ids(&catalog), &ids[..ids.len() - 1]);
        assert!(ids.len() < 2 || catalog.model_status(ids[0]) == ModelStatus::Down);
    }
    let reader = VendorsConfig { default_model: Some(READER_ID.to_owned()), ..config };
    let catalog = catalog_of(reader);
    assert!(catalog.refresh_models().await.is_err());
    assert_eq!(default_ids(&catalog), [READER_ID], "who names it as the default means it");
}
