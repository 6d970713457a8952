//! Search by meaning: passages are embedded by a vendor's model in the background, and searches find what shares no word with
//! them.

use std::collections::BTreeSet;

use conformance::{Account, Api, Expect, Options, Say, Service, Vendor, poll};
use serde_json::{Value, json};

use crate::metrics::metrics;

/// The words of the question stand in no document.
const QUESTION: &str = "Are canaries tolerated?";
const RULES: &str = "A parrot may stay in the flat if it does not shriek at night.";

struct Stage {
    vendor: Vendor,
    service: Service,
    account: Account,
}

/// Starts a service with a vendor and its model of embeddings.
fn stage(model: &str) -> Stage {
    let vendor = Vendor::start();
    let mut environment = vendor.environment();
    environment.push(("CAUSERIE_EMBEDDINGS_MODEL".to_owned(), model.to_owned()));
    environment.push(("CAUSERIE_PRICES_THOUSAND_TOKENS_EMBEDDED".to_owned(), "100".to_owned()));
    let service = Service::start(Options { environment, ..Options::default() });
    let account = service.account();
    Stage { vendor, service, account }
}

impl Stage {
    fn api(&self) -> Api {
        self.service.api(&self.account)
    }

    /// Uploads documents, one of them with the answer.
    fn upload(&self) {
        let api = self.api();
        api.upload("rules.txt", RULES.as_bytes()).expect_status(201);
        api.upload("garden.txt", b"The hedge is cut each autumn. The shed stays locked.").expect_status(201);
    }

    /// Waits until the vendor has embedded a text.
    fn wait_embedded(&self, text: &str) {
        poll::until("it is embedded", || {
            self.vendor.embedded().0.iter().any(|one| one.contains(text)).then_some(())
        });
    }

    /// Has a model search for the question, and returns what it read as the result.
    fn searched(&self) -> String {
        let api = self.api();
        let before = self.vendor.requests().len();
        let arguments = json!({ "query": QUESTION });
        self.vendor.will([Say::Call { tool: "search".to_owned(), arguments }]);
        self.vendor.will([Say::text("So it is.")]);
        let answer = api.completed(&api.accepted(&json!({ "input": QUESTION })));
        assert_eq!((&answer["text"], &answer["error"]), (&json!("So it is."), &Value::Null), "{answer}");
        let requests = self.vendor.requests();
        assert_eq!(requests.len(), before + 2, "{requests:?}");
        requests[before + 1]["messages"].as_array().expect("messages").last().expect("one").to_string()
    }

    fn metric(&self, name: &str) -> f64 {
        metrics(&self.api()).get(name).copied().unwrap_or(0.0)
    }
}

#[test]
fn a_question_in_other_words_than_the_passage_is_answered_with_embeddings_and_paid() {
    let stage = stage("meanings");
    let start = stage.service.credits(&stage.account).0;
    stage.upload();
    stage.wait_embedded(RULES);
    let spent = || Some(start - stage.service.credits(&stage.account).0).filter(|spent| *spent > 0);
    assert!(poll::until("it is paid for", spent) <= 10, "the tokens of two sentences");
    let found = poll::until("the passage is found", || {
        let found = stage.searched();
        found.contains("A parrot may stay").then_some(found)
    });
    assert!(found.contains("rules.txt"), "{found}");
    assert!(stage.vendor.embedded().0.iter().any(|text| text == QUESTION), "the query was embedded");
    assert!(stage.metric("causerie_searches_total{with=\"words_and_vectors\"}") >= 1.0);
    assert!(stage.metric("causerie_embedded_passages_total{outcome=\"embedded\"}") >= 2.0);
    poll::until("nothing is reserved", || (stage.service.credits(&stage.account).1 == 0).then_some(()));
}

#[test]
fn without_embeddings_the_words_decide() {
    let vendor = Vendor::start();
    let service = Service::start(Options { environment: vendor.environment(), ..Options::default() });
    let account = service.account();
    let stage = Stage { vendor, service, account };
    stage.upload();
    let found = stage.searched();
    assert!(!found.contains("A parrot may stay"), "{found}");
    assert_eq!(stage.vendor.embedded(), (Vec::new(), 0));
}

#[test]
fn a_vendor_that_is_down_fails_no_search() {
    let stage = stage("meanings");
    stage.vendor.embeds(Some(0));
    stage.upload();
    stage.api().upload("canaries.txt", b"Canaries must be registered with the town.").expect_status(201);
    let found = stage.searched();
    assert!(found.contains("registered with the town"), "words alone find what has them: {found}");
    assert!(!found.contains("A parrot may stay"), "{found}");
    assert!(stage.metric("causerie_searches_total{with=\"words\"}") >= 1.0);
    poll::until("it is logged", || stage.service.log().contains("by words alone").then_some(()));
    assert_eq!(stage.metric("causerie_embedded_passages_total{outcome=\"embedded\"}"), 0.0);
    poll::until("nothing is reserved", || (stage.service.credits(&stage.account).1 == 0).then_some(()));
}

#[test]
fn embedding_goes_on_where_it_was_after_a_kill() {
    let mut stage = stage("meanings");
    stage.vendor.embeds(Some(1));
    let line = |number: u32| format!("Article {number} rules on matter {}.\n\n", number * 7919);
    let long: String = (1..4000).map(line).collect();
    stage.api().upload("code.txt", long.as_bytes()).expect_status(201);
    poll::until("the vendor fails in the middle", || (stage.vendor.embedded().1 > 0).then_some(()));
    let (first, _) = stage.vendor.embedded();
    assert!(!first.is_empty());
    stage.service.kill();
    stage.vendor.embeds(None);
    stage.service.restart();
    stage.wait_embedded("Article 3999 ");
    let (all, _) = stage.vendor.embedded();
    let distinct: BTreeSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "no passage is embedded twice");
    poll::until("nothing stays reserved", || (stage.service.credits(&stage.account).1 == 0).then_some(()));
}

#[test]
fn vectors_that_are_none_are_not_believed() {
    for fault in ["nan", "long", "dimension", "huge", "odd"] {
        let stage = stage(&format!("meanings-{fault}"));
        // One document, so that its passages are embedded by one request: a lone vector has no other dimension.
        let document = format!("# Birds\n\n{RULES}\n\n# Garden\n\nThe hedge is cut each autumn.\n");
        stage.api().upload("rules.md", document.as_bytes()).expect_status(201);
        poll::until("the vendor is asked", || (stage.vendor.embedded().0.len() > 1).then_some(()));
        let found = stage.searched();
        assert!(!found.contains("A parrot may stay"), "{fault}: {found}");
        assert_eq!(stage.metric("causerie_embedded_passages_total{outcome=\"embedded\"}"), 0.0, "{fault}");
        poll::until("the failure is counted", || {
            (stage.metric("causerie_embedding_failures_total{cause=\"vendor\"}") > 0.0).then_some(())
        });
    }
}

#[test]
fn a_passage_that_the_model_rejects_does_not_keep_the_others_from_being_found() {
    let stage = stage("meanings");
    let rejected = format!("The word {} stands here.", test_support::embeddings::REJECTED);
    stage.api().upload("rejected.txt", rejected.as_bytes()).expect_status(201);
    stage.upload();
    stage.wait_embedded(RULES);
    poll::until("the others are found", || stage.searched().contains("A parrot may stay").then_some(()));
    poll::until("one is given up", || {
        (stage.metric("causerie_embedded_passages_total{outcome=\"rejected\"}") == 1.0).then_some(())
    });
}

#[test]
fn an_account_without_credits_searches_by_words() {
    let stage = stage("meanings");
    let poor = stage.service.account_as(&conformance::NewAccount { credits: 0, ..Default::default() });
    stage.service.api(&poor).upload("rules.txt", RULES.as_bytes()).expect_status(201);
    poll::until("it is counted", || {
        (stage.metric("causerie_embedding_failures_total{cause=\"credits\"}") >= 1.0).then_some(())
    });
    assert_eq!(stage.service.credits(&poor), (0, 0));
    assert_eq!(stage.vendor.embedded(), (Vec::new(), 0));
}
