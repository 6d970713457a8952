//! Tests the catalog with the fake vendor.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use domain::catalog::{Localized, ModelStatus, ProviderName};
use domain::step::{Item, StepEvent, StepRequest};
use domain::time::{Clock, Timestamp};
use futures_util::StreamExt;
use models::catalog::READER_ID;
use models::{Catalog, ModelConfig, ProbeError, VendorConfig, VendorsConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[derive(Default)]
struct Watch(AtomicI64);

impl Clock for Watch {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed))
    }
}

fn catalog(base_url: Option<String>) -> Catalog {
    let openai =
        base_url.map(|base_url| VendorConfig { base_url: Some(base_url), ..VendorConfig::default() });
    Catalog::new(VendorsConfig { openai, ..VendorsConfig::default() }, Arc::new(Watch::default())).unwrap()
}

fn request(question: &str) -> StepRequest {
    StepRequest {
        images: Vec::new(),
        model: String::new(),
        instructions: String::new(),
        transcript: vec![Item::Question { text: question.to_owned(), attachments: vec![] }],
        tools: vec![],
        settings: vec![],
        output_max_tokens: 100,
    }
}

fn defaults(catalog: &Catalog) -> Vec<String> {
    catalog.entries().iter().filter(|entry| entry.default).map(|entry| entry.id.clone()).collect()
}

#[tokio::test]
async fn without_a_vendor_the_reader_answers() {
    let catalog = catalog(None);
    catalog.refresh().await.unwrap();
    assert_eq!(defaults(&catalog), [READER_ID]);
    assert!(catalog.entries()[0].builtin);
    assert_eq!(catalog.status(READER_ID), ModelStatus::Up);
    let events: Vec<_> = catalog.resolve(None).unwrap().step(request("What is the rent?")).collect().await;
    assert!(matches!(events.last(), Some(Ok(StepEvent::Finished { .. }))), "{events:?}");
}

#[tokio::test]
async fn a_vendors_models_are_found_and_the_reader_comes_last() {
    let standin = test_support::start().await.unwrap();
    let catalog = catalog(Some(standin.base_url()));
    assert_eq!(defaults(&catalog), [""; 0], "the reader answers in nobody's place");
    catalog.refresh().await.unwrap();
    assert_eq!(defaults(&catalog), ["standin"]);
    let entries = catalog.entries();
    assert_eq!(entries.last().map(|entry| entry.id.as_str()), Some(READER_ID));
    let reasoning = entries.iter().find(|entry| entry.id == "reasoning").unwrap();
    assert_eq!(reasoning.settings[0].default_value, "MEDIUM");
    assert!(catalog.resolve(Some("nobody")).is_none());
    assert_eq!(catalog.status("standin"), ModelStatus::Up, "the listing was the probe");
    assert_eq!(catalog.resolve(Some(READER_ID)).unwrap().entry.id, READER_ID);
}

#[tokio::test]
async fn calls_tell_how_a_model_fares() {
    let standin = test_support::start().await.unwrap();
    let catalog = catalog(Some(standin.base_url()));
    catalog.refresh().await.unwrap();
    let call = async |id: &str| {
        let _events: Vec<_> = catalog.resolve(Some(id)).unwrap().step(request("Hello")).collect().await;
    };
    call("standin").await;
    assert_eq!(catalog.status("standin"), ModelStatus::Up);
    call("too-long").await;
    assert_eq!(catalog.status("too-long"), ModelStatus::Up, "a long question is not the model's fault");
    call("denied").await;
    assert_eq!(catalog.status("denied"), ModelStatus::Degraded);
    call("denied").await;
    call("denied").await;
    assert_eq!(catalog.status("denied"), ModelStatus::Down);
    assert_eq!(standin.requests()[0].model(), "standin", "the vendor's name is asked for");
}

#[tokio::test]
async fn a_vendor_that_goes_away_keeps_its_models_and_is_down() {
    let standin = test_support::start().await.unwrap();
    let catalog = catalog(Some(standin.base_url()));
    catalog.refresh().await.unwrap();
    let before = catalog.entries();
    drop(standin);
    let mut refused = catalog.refresh().await;
    // An open connection may serve one more request.
    for _ in 0..3 {
        if refused.is_err() {
            break;
        }
        refused = catalog.refresh().await;
    }
    assert!(refused.is_err());
    assert_eq!(catalog.entries(), before);
    assert_eq!(catalog.status("standin"), ModelStatus::Down);
}

#[tokio::test]
async fn vendors_stand_side_by_side_and_one_that_goes_away_takes_only_its_own_models_down() {
    let (first, second) = (test_support::start().await.unwrap(), test_support::start().await.unwrap());
    let at = |base_url: String| Some(VendorConfig { base_url: Some(base_url), ..VendorConfig::default() });
    let config = VendorsConfig {
        anthropic: at(first.root_url()),
        openai: at(second.base_url()),
        google: at(second.root_url()),
        ..VendorsConfig::default()
    };
    let catalog = Catalog::new(config.clone(), Arc::new(Watch::default())).unwrap();
    catalog.refresh().await.unwrap();
    assert_eq!(defaults(&catalog), ["standin"]);
    let entries = catalog.entries();
    let mut ids: Vec<_> = entries.iter().map(|entry| entry.id.as_str()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), count % 3), (count, 1), "each vendor's models once, and the reader");
    for (id, path) in [("standin", "/v1/messages"), ("openai/standin", "/v1/chat/completions")] {
        let events: Vec<_> = catalog.resolve(Some(id)).unwrap().step(request("Hello")).collect().await;
        assert!(matches!(events.last(), Some(Ok(StepEvent::Finished { .. }))), "{events:?}");
        let seen = [first.requests(), second.requests()].concat();
        assert_eq!(seen.last().map(|seen| (seen.path.as_str(), seen.model())), Some((path, "standin")));
    }
    drop(first);
    // An open connection may serve one more request.
    for _ in 0..3 {
        if catalog.refresh().await.is_err() {
            break;
        }
    }
    assert_eq!(catalog.entries(), entries);
    assert_eq!(catalog.status("reasoning"), ModelStatus::Down);
    assert_eq!(catalog.status("google/reasoning"), ModelStatus::Up);
    let chosen = VendorsConfig { default_model: Some("google/standin".to_owned()), ..config };
    let catalog = Catalog::new(chosen, Arc::new(Watch::default())).unwrap();
    assert!(catalog.refresh().await.is_err());
    assert_eq!(defaults(&catalog), ["google/standin"]);
}

#[tokio::test]
async fn a_setting_that_nobody_chose_is_what_the_catalog_offers() {
    let standin = test_support::start().await.unwrap();
    let catalog = catalog(Some(standin.base_url()));
    catalog.refresh().await.unwrap();
    for (chosen, sent) in [(None, "medium"), (Some("HIGH"), "high")] {
        let mut request = request("Hello");
        request.settings.extend(chosen.map(|value| ("reasoningEffort".to_owned(), value.to_owned())));
        let _events: Vec<_> = catalog.resolve(Some("reasoning")).unwrap().step(request).collect().await;
        assert_eq!(standin.requests().last().unwrap().body["reasoning_effort"], sent);
    }
}

fn configured(base_url: String, models: Vec<ModelConfig>) -> VendorsConfig {
    let openai = Some(VendorConfig { base_url: Some(base_url), ..VendorConfig::default() });
    VendorsConfig { openai, models, ..VendorsConfig::default() }
}

fn catalog_of(config: VendorsConfig) -> Catalog {
    Catalog::new(config, Arc::new(Watch::default())).unwrap()
}

#[tokio::test]
async fn what_is_configured_changes_what_a_vendor_lists() {
    let standin = test_support::start().await.unwrap();
    let plain = catalog_of(configured(standin.base_url(), vec![]));
    plain.refresh().await.unwrap();
    let model = |id: &str| ModelConfig::new(id, ProviderName::OpenAi);
    let options = |text: &str| serde_json::from_str(text).unwrap();
    let models = vec![
        ModelConfig {
            label: Some(Localized::new("a", "b", "c")),
            description: Some(Localized::same("d")),
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
    let catalog = catalog_of(configured(standin.base_url(), models));
    let ids = |catalog: &Catalog| -> Vec<String> {
        catalog.entries().iter().map(|entry| entry.id.clone()).collect()
    };
    assert!(ids(&catalog).contains(&"standin".to_owned()), "also before a vendor has listed models");
    catalog.refresh().await.unwrap();
    catalog.refresh().await.unwrap();
    let entries = catalog.entries();
    let of = |id: &str| entries.iter().find(|entry| entry.id == id).unwrap();
    let standin_entry = of("standin");
    assert_eq!((standin_entry.label.cs.as_str(), standin_entry.description.sk.as_str()), ("a", "d"));
    assert_eq!((standin_entry.context_tokens, standin_entry.output_max_tokens), (10_000, 5_000));
    assert_eq!(standin_entry.price.base_millis, 5);
    assert_eq!(standin_entry.price.output_millis, models::catalog::DEFAULT_PRICE.output_millis);
    assert_eq!(standin_entry.settings.len(), 1);
    assert!(of("reasoning").deprecated && of("reasoning").settings.is_empty());
    assert!(catalog.resolve(Some("denied")).is_none());
    assert_eq!(of("too-long").vendor_name, "unlisted");
    assert_eq!(of("openai/too-long").vendor_name, "too-long");
    // One model is hidden, and two are added.
    assert_eq!(entries.len(), plain.entries().len() + 1, "{:?}", ids(&catalog));
    assert_eq!(catalog.status("careful"), ModelStatus::Up);
    assert_eq!(catalog.status("too-long"), ModelStatus::Unknown, "it is in no list");
    for (id, top_p) in [("careful", serde_json::json!(0.5)), ("standin", serde_json::Value::Null)] {
        let _events: Vec<_> = catalog.resolve(Some(id)).unwrap().step(request("Hello")).collect().await;
        let seen = standin.requests();
        let seen = seen.last().unwrap();
        assert_eq!((seen.model(), &seen.body["top_p"]), ("standin", &top_p), "{id}");
    }
    assert_eq!(defaults(&catalog), defaults(&plain));
}

#[tokio::test]
async fn only_what_is_configured_can_be_all_there_is() {
    let standin = test_support::start().await.unwrap();
    let google = ModelConfig::new("elsewhere", ProviderName::Google);
    let mut config = configured(standin.base_url(), vec![google]);
    config.only_configured = true;
    let ids = |catalog: &Catalog| -> Vec<String> {
        catalog.entries().iter().map(|entry| entry.id.clone()).collect()
    };
    let catalog = catalog_of(config.clone());
    catalog.refresh().await.unwrap();
    assert_eq!(ids(&catalog), [READER_ID], "a catalog is never empty, and nobody answers for the other");
    config.models.push(ModelConfig::new("reasoning", ProviderName::OpenAi));
    let catalog = catalog_of(config);
    catalog.refresh().await.unwrap();
    assert_eq!(ids(&catalog), ["reasoning"]);
    assert_eq!(defaults(&catalog), ["reasoning"]);
    assert!(catalog.resolve(Some(READER_ID)).is_none() && catalog.resolve(Some("standin")).is_none());
}

/// Starts a server that answers every request with this status and body, which can be changed later.
async fn server(status: u16, body: &str) -> (String, Arc<Mutex<String>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let answer = Arc::new(Mutex::new(answer(status, body)));
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

fn answer(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Returns an address without a listener.
async fn nowhere() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}/v1", listener.local_addr().unwrap())
}

fn vendor(base_url: &str) -> Option<VendorConfig> {
    let key = Some(models::Secret::new("sk-secret"));
    Some(VendorConfig { key, base_url: Some(base_url.to_owned()), ..VendorConfig::default() })
}

#[tokio::test]
async fn a_vendor_that_tells_no_models_is_told_of_with_its_address_and_the_cause() {
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
        let (base_url, _answer) = server(status, body).await;
        let catalog = catalog_of(VendorsConfig { openai: vendor(&base_url), ..VendorsConfig::default() });
        assert_eq!(catalog.vendors()[0].up, None);
        assert!(catalog.refresh().await.is_err(), "{status} {body}");
        let health = &catalog.vendors()[0];
        assert_eq!((health.up, health.trouble), (Some(false), Some(trouble)), "{status} {body}");
        assert_eq!((health.detail.as_deref(), health.base_url.as_str()), (Some(detail), base_url.as_str()));
        assert_eq!(health.reason(), Some(format!("OPENAI at {base_url}: {detail}")));
        assert_eq!(catalog.outage(), Some(format!("OPENAI: {trouble}")));
        assert_eq!(health.failures.iter().sum::<u64>(), 1);
        assert_eq!(defaults(&catalog), [""; 0], "the reader answers in nobody's place");
        assert!(catalog.resolve(None).is_none());
        assert!(catalog.resolve(Some(READER_ID)).is_some(), "whoever names it has it");
    }
    let base_url = nowhere().await;
    let catalog = catalog_of(VendorsConfig { openai: vendor(&base_url), ..VendorsConfig::default() });
    assert!(catalog.refresh().await.is_err());
    let detail = catalog.vendors()[0].detail.clone();
    assert_eq!(detail.as_deref(), Some("it cannot be reached: the connection was refused"));
}

#[tokio::test]
async fn a_vendor_that_comes_back_is_found_without_a_restart() {
    let (base_url, answers) = server(401, "").await;
    let catalog = catalog_of(VendorsConfig { openai: vendor(&base_url), ..VendorsConfig::default() });
    assert!(catalog.refresh().await.is_err());
    *answers.lock().unwrap() =
        answer(200, r#"{"data":[{"id":"m","context_length":1,"max_model_len":9000},null]}"#);
    catalog.refresh_vendor(ProviderName::OpenAi).await.unwrap();
    assert_eq!((defaults(&catalog), catalog.status("m")), (vec!["m".to_owned()], ModelStatus::Up));
    assert_eq!((catalog.vendors()[0].reason(), catalog.outage()), (None, None));
    for empty in [answer(503, ""), answer(200, "{}"), answer(401, "")] {
        *answers.lock().unwrap() = empty;
        assert!(catalog.refresh_vendor(ProviderName::OpenAi).await.is_err());
        assert_eq!((defaults(&catalog), catalog.status("m")), (vec!["m".to_owned()], ModelStatus::Down));
        assert_eq!(catalog.outage(), None, "its models are known");
    }
}

#[tokio::test]
async fn only_what_a_silent_vendor_could_have_is_not_known_to_be_missing() {
    let (listed, _answers) = server(200, r#"{"data":[{"id":"m","max_model_len":9000}]}"#).await;
    let dead = nowhere().await;
    let silent =
        VendorsConfig { openai: vendor(&listed), anthropic: vendor(&dead), ..VendorsConfig::default() };
    let catalog = catalog_of(silent);
    assert!(catalog.refresh().await.is_err());
    assert!(catalog.outage().is_some_and(|outage| outage.starts_with("ANTHROPIC: ")));
    assert!(catalog.outage_of("claude-next").is_some_and(|outage| outage.starts_with("ANTHROPIC: ")));
    for nobodys in ["nonsense", "claudette", "gpt-5", ""] {
        assert_eq!(catalog.outage_of(nobodys), None, "{nobodys}");
    }
    let any = catalog_of(VendorsConfig { openai: vendor(&dead), ..VendorsConfig::default() });
    assert!(any.refresh().await.is_err());
    assert!(any.outage_of("nonsense").is_some(), "no model is known at all");
    let mixed = VendorsConfig { openai: vendor(&dead), anthropic: vendor(&dead), ..VendorsConfig::default() };
    assert!(catalog_of(mixed).outage_of("nonsense").is_some_and(|outage| outage.starts_with("OPENAI: ")));
}

#[tokio::test]
async fn what_a_vendor_is_known_to_have_is_shown_as_down_while_it_tells_nothing() {
    let dead = nowhere().await;
    let config = VendorsConfig {
        anthropic: vendor(&dead),
        google: vendor(&dead),
        models: vec![ModelConfig::new("mine", ProviderName::Anthropic)],
        ..VendorsConfig::default()
    };
    let catalog = catalog_of(config.clone());
    assert!(catalog.refresh().await.is_err());
    let entries = catalog.entries();
    for provider in [ProviderName::Anthropic, ProviderName::Google] {
        let of: Vec<_> =
            entries.iter().filter(|entry| entry.provider == provider && !entry.builtin).collect();
        assert!(of.len() > 1, "{entries:?}");
        for entry in of {
            assert_eq!(catalog.status(&entry.id), ModelStatus::Down, "{}", entry.id);
        }
    }
    assert!(entries.iter().any(|entry| entry.id == "mine"));
    assert_eq!(defaults(&catalog).len(), 1);
    assert!(!catalog.resolve(None).unwrap().entry.builtin);
    // A server that is not a vendor's own has no expected models except the operator's.
    let own = ModelConfig::new("mine", ProviderName::OpenAi);
    for (models, default_model, ids) in [
        (vec![], None, vec![READER_ID]),
        (vec![], Some("llama"), vec!["llama", READER_ID]),
        (vec![own.clone()], Some("mine"), vec!["mine", READER_ID]),
        (vec![ModelConfig { hidden: true, ..own }], Some("mine"), vec![READER_ID]),
    ] {
        let default_model = default_model.map(str::to_owned);
        let openai = vendor(&dead);
        let catalog = catalog_of(VendorsConfig { openai, models, default_model, ..VendorsConfig::default() });
        assert!(catalog.refresh().await.is_err());
        let entries = catalog.entries();
        assert_eq!(entries.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>(), ids);
        assert_eq!(defaults(&catalog), &ids[..ids.len() - 1]);
        assert!(ids.len() < 2 || catalog.status(ids[0]) == ModelStatus::Down);
    }
    let reader = VendorsConfig { default_model: Some(READER_ID.to_owned()), ..config };
    let catalog = catalog_of(reader);
    assert!(catalog.refresh().await.is_err());
    assert_eq!(defaults(&catalog), [READER_ID], "who names it as the default means it");
}
