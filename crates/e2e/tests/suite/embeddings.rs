//! Search by meaning: passages are embedded by a vendor's model in the background, and searches find passages without common
//! words.

use std::collections::BTreeSet;

use e2e::{Api, Expect, Say, ScriptedVendor, ServiceOptions, TestAccount, TestService, poll};
use serde_json::{Value, json};

use crate::metrics::read_metrics;

/// No document contains the words of the question.
const QUESTION: &str = "Are canaries tolerated?";
const RULES: &str = "A parrot may stay in the flat if it does not shriek at night.";

struct EmbeddingsFixture {
    vendor: ScriptedVendor,
    service: TestService,
    account: TestAccount,
}

/// Starts a service with a vendor and its model of embeddings.
fn embeddings_fixture(model: &str) -> EmbeddingsFixture {
    let vendor = ScriptedVendor::start();
    let mut environment = vendor.service_environment();
    environment.push(("CAUSERIE_EMBEDDINGS_MODEL".to_owned(), model.to_owned()));
    environment.push(("CAUSERIE_PRICES_THOUSAND_TOKENS_EMBEDDED".to_owned(), "100".to_owned()));
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let account = service.create_account();
    EmbeddingsFixture { vendor, service, account }
}

impl EmbeddingsFixture {
    fn account_api(&self) -> Api {
        self.service.api_for(&self.account)
    }

    /// Uploads documents, one of them with the answer.
    fn upload_documents(&self) {
        let api = self.account_api();
        api.upload_file("rules.txt", RULES.as_bytes()).expect_status(201);
        api.upload_file("garden.txt", b"The hedge is cut each autumn. The shed stays locked.")
            .expect_status(201);
    }

    /// Waits until the vendor has embedded a text.
    fn wait_until_embedded(&self, text: &str) {
        poll::wait_until("it is embedded", || {
            self.vendor.embedded_texts().0.iter().any(|one| one.contains(text)).then_some(())
        });
    }

    /// Makes a model search for the question, and returns the result that it read.
    fn search_by_model(&self) -> String {
        let api = self.account_api();
        let before = self.vendor.request_bodies().len();
        let arguments = json!({ "query": QUESTION });
        self.vendor.add_script([Say::Call { tool: "search".to_owned(), arguments }]);
        self.vendor.add_script([Say::from_text("So it is.")]);
        let answer = api.wait_for_completion(&api.expect_accepted(&json!({ "input": QUESTION })));
        assert_eq!((&answer["text"], &answer["error"]), (&json!("So it is."), &Value::Null), "{answer}");
        let requests = self.vendor.request_bodies();
        assert_eq!(requests.len(), before + 2, "{requests:?}");
        requests[before + 1]["messages"].as_array().expect("messages").last().expect("one").to_string()
    }

    fn metric_value(&self, name: &str) -> f64 {
        read_metrics(&self.account_api()).get(name).copied().unwrap_or(0.0)
    }
}

#[test]
fn embeddings_find_paraphrased_passage() {
    let stage = embeddings_fixture("meanings");
    let start = stage.service.show_credits(&stage.account).0;
    stage.upload_documents();
    stage.wait_until_embedded(RULES);
    let spent = || Some(start - stage.service.show_credits(&stage.account).0).filter(|spent| *spent > 0);
    assert!(poll::wait_until("it is paid for", spent) <= 10, "the tokens of two sentences");
    let found = poll::wait_until("the passage is found", || {
        let found = stage.search_by_model();
        found.contains("A parrot may stay").then_some(found)
    });
    assert!(found.contains("rules.txt"), "{found}");
    assert!(stage.vendor.embedded_texts().0.iter().any(|text| text == QUESTION), "the query was embedded");
    assert!(stage.metric_value("causerie_searches_total{with=\"words_and_vectors\"}") >= 1.0);
    assert!(stage.metric_value("causerie_embedded_passages_total{outcome=\"embedded\"}") >= 2.0);
    poll::wait_until("nothing is reserved", || {
        (stage.service.show_credits(&stage.account).1 == 0).then_some(())
    });
}

#[test]
fn without_embeddings_the_words_decide() {
    let vendor = ScriptedVendor::start();
    let service = TestService::start(ServiceOptions {
        environment: vendor.service_environment(),
        ..ServiceOptions::default()
    });
    let account = service.create_account();
    let stage = EmbeddingsFixture { vendor, service, account };
    stage.upload_documents();
    let found = stage.search_by_model();
    assert!(!found.contains("A parrot may stay"), "{found}");
    assert_eq!(stage.vendor.embedded_texts(), (Vec::new(), 0));
}

#[test]
fn embeddings_outage_fails_no_search() {
    let stage = embeddings_fixture("meanings");
    stage.vendor.set_embedding_limit(Some(0));
    stage.upload_documents();
    stage
        .account_api()
        .upload_file("canaries.txt", b"Canaries must be registered with the town.")
        .expect_status(201);
    let found = stage.search_by_model();
    assert!(found.contains("registered with the town"), "words alone find what has them: {found}");
    assert!(!found.contains("A parrot may stay"), "{found}");
    assert!(stage.metric_value("causerie_searches_total{with=\"words\"}") >= 1.0);
    poll::wait_until("it is logged", || stage.service.log_text().contains("by words alone").then_some(()));
    assert_eq!(stage.metric_value("causerie_embedded_passages_total{outcome=\"embedded\"}"), 0.0);
    poll::wait_until("nothing is reserved", || {
        (stage.service.show_credits(&stage.account).1 == 0).then_some(())
    });
}

#[test]
fn embedding_resumes_after_kill() {
    let mut stage = embeddings_fixture("meanings");
    stage.vendor.set_embedding_limit(Some(1));
    let line = |number: u32| format!("Article {number} rules on matter {}.\n\n", number * 7919);
    let long: String = (1..4000).map(line).collect();
    stage.account_api().upload_file("code.txt", long.as_bytes()).expect_status(201);
    poll::wait_until("the vendor fails in the middle", || {
        (stage.vendor.embedded_texts().1 > 0).then_some(())
    });
    let (first, _) = stage.vendor.embedded_texts();
    assert!(!first.is_empty());
    stage.service.kill();
    stage.vendor.set_embedding_limit(None);
    stage.service.restart();
    stage.wait_until_embedded("Article 3999 ");
    let (all, _) = stage.vendor.embedded_texts();
    let distinct: BTreeSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "no passage is embedded twice");
    poll::wait_until("nothing stays reserved", || {
        (stage.service.show_credits(&stage.account).1 == 0).then_some(())
    });
}

#[test]
fn invalid_vectors_are_rejected() {
    for fault in ["nan", "long", "dimension", "huge", "odd"] {
        let stage = embeddings_fixture(&format!("meanings-{fault}"));
        // One document, so that its passages are embedded by one request: a lone vector has no other dimension.
        let document = format!("# Birds\n\n{RULES}\n\n# Garden\n\nThe hedge is cut each autumn.\n");
        stage.account_api().upload_file("rules.md", document.as_bytes()).expect_status(201);
        poll::wait_until("the vendor is asked", || (stage.vendor.embedded_texts().0.len() > 1).then_some(()));
        let found = stage.search_by_model();
        assert!(!found.contains("A parrot may stay"), "{fault}: {found}");
        assert_eq!(
            stage.metric_value("causerie_embedded_passages_total{outcome=\"embedded\"}"),
            0.0,
            "{fault}"
        );
        poll::wait_until("the failure is counted", || {
            (stage.metric_value("causerie_embedding_failures_total{cause=\"vendor\"}") > 0.0).then_some(())
        });
    }
}

#[test]
fn rejected_passage_hides_no_others() {
    let stage = embeddings_fixture("meanings");
    let rejected = format!("The word {} stands here.", test_support::embeddings::REJECTED);
    stage.account_api().upload_file("rejected.txt", rejected.as_bytes()).expect_status(201);
    stage.upload_documents();
    stage.wait_until_embedded(RULES);
    poll::wait_until("the others are found", || {
        stage.search_by_model().contains("A parrot may stay").then_some(())
    });
    poll::wait_until("one is given up", || {
        (stage.metric_value("causerie_embedded_passages_total{outcome=\"rejected\"}") == 1.0).then_some(())
    });
}

#[test]
fn search_without_credits_uses_words() {
    let stage = embeddings_fixture("meanings");
    let poor =
        stage.service.create_account_with(&e2e::TestAccountOptions { credits: 0, ..Default::default() });
    stage.service.api_for(&poor).upload_file("rules.txt", RULES.as_bytes()).expect_status(201);
    poll::wait_until("it is counted", || {
        (stage.metric_value("causerie_embedding_failures_total{cause=\"credits\"}") >= 1.0).then_some(())
    });
    assert_eq!(stage.service.show_credits(&poor), (0, 0));
    assert_eq!(stage.vendor.embedded_texts(), (Vec::new(), 0));
}
