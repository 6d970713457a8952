//! The catalog against the stand-in vendor.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use domain::catalog::{Localized, ModelStatus, ProviderName};
use domain::step::{Item, StepEvent, StepRequest};
use domain::time::{Clock, Timestamp};
use futures_util::StreamExt;
use models::catalog::READER_ID;
use models::{Catalog, ModelConfig, VendorConfig, VendorsConfig};

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
    let standin = standin::start().await.unwrap();
    let catalog = catalog(Some(standin.base_url()));
    assert_eq!(defaults(&catalog), [READER_ID]);
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
    let standin = standin::start().await.unwrap();
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
    let standin = standin::start().await.unwrap();
    let catalog = catalog(Some(standin.base_url()));
    catalog.refresh().await.unwrap();
    let before = catalog.entries();
    drop(standin);
    let mut refused = catalog.refresh().await;
    // A connection that was kept open may serve once more.
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
    let (first, second) = (standin::start().await.unwrap(), standin::start().await.unwrap());
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
    // A connection that was kept open may serve once more.
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
    let standin = standin::start().await.unwrap();
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
    let standin = standin::start().await.unwrap();
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
        // It has the name that the vendor gives to another.
        ModelConfig { vendor_name: Some("unlisted".to_owned()), ..model("too-long") },
    ];
    let catalog = catalog_of(configured(standin.base_url(), models));
    let ids = |catalog: &Catalog| -> Vec<String> {
        catalog.entries().iter().map(|entry| entry.id.clone()).collect()
    };
    assert!(ids(&catalog).contains(&"standin".to_owned()), "also before a vendor has told");
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
    // One is hidden, and two are added.
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
    let standin = standin::start().await.unwrap();
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
