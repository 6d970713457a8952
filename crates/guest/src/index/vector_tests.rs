//! Search by meaning: vectors of passages and queries.

use protocol::embedding::{
    EmbeddedPassages, PassageVector, QueryVector, UnembeddedPassage, UnembeddedRequest,
};

use super::tests::{Fixture, paths};
use super::*;

/// A vector of three components: how much a text is about money, animals and machines.
fn meaning(text: &str) -> Vec<i8> {
    let topics: [&[&str]; 3] = [
        &["rent", "costs", "pay", "crowns"],
        &["parrot", "canaries", "animals"],
        &["motor", "boiler", "engine"],
    ];
    let count = |words: &[&str]| words.iter().filter(|word| text.to_lowercase().contains(*word)).count();
    let counts: Vec<f32> = topics.iter().map(|words| count(words) as f32 + 0.1).collect();
    domain::embedding::quantize(&counts).unwrap()
}

async fn unembedded(fixture: &Fixture, model: &str, after: i64) -> Vec<UnembeddedPassage> {
    let asked = UnembeddedRequest { model: model.to_owned(), after, limit: 2 };
    fixture.library.unembedded(asked).await.unwrap().passages
}

fn vectors(model: &str, passages: &[UnembeddedPassage]) -> EmbeddedPassages {
    let vector = |passage: &UnembeddedPassage| PassageVector {
        id: passage.id,
        digest: passage.digest,
        components: meaning(&passage.text),
    };
    EmbeddedPassages { model: model.to_owned(), vectors: passages.iter().map(vector).collect() }
}

/// Gives every passage a vector, and returns how many got one.
async fn embed(fixture: &Fixture, model: &str) -> u32 {
    let (mut after, mut stored) = (0, 0);
    loop {
        let passages = unembedded(fixture, model, after).await;
        let Some(last) = passages.last() else { return stored };
        after = last.id;
        stored += fixture.library.embedded(vectors(model, &passages)).await.unwrap().stored;
    }
}

fn ask_by_meaning(fixture: &Fixture, model: &str, query: &str) {
    let (model, components) = (model.to_owned(), meaning(query));
    fixture.library.query_vector(QueryVector { model, query: query.to_owned(), components });
}

fn house() -> Fixture {
    Fixture::with(&[
        (
            "rules.txt",
            "A parrot may stay in the flat.\nThe boiler is checked each spring.\nThe garden is shared.",
        ),
        ("lease.txt", "The tenant transfers 900 crowns each month."),
    ])
}

#[tokio::test]
async fn a_passage_without_the_words_of_the_question_is_found_by_its_vector() {
    let mut fixture = house();
    let question = "Are canaries tolerated?";
    let by_words = fixture.search(question).await;
    assert!(by_words.passages.is_empty(), "by words there is nothing: {by_words:?}");
    assert_eq!(embed(&fixture, "m").await, 4);
    assert!(fixture.search(question).await.passages.is_empty(), "the question has no vector yet");
    ask_by_meaning(&fixture, "m", question);
    let found = fixture.search(question).await;
    assert_eq!(found.passages[0].text, "A parrot may stay in the flat.", "{found:?}");
    let within = fixture.search_in(question, &["/lease.txt"]).await;
    assert!(paths(&within).iter().all(|path| *path == "/lease.txt"), "{within:?}");
    ask_by_meaning(&fixture, "other", question);
    assert!(fixture.search(question).await.passages.is_empty(), "a vector of another model says nothing");
    // The kill of the agent loses none.
    fixture.library = Library::new(fixture.workspace.path(), fixture.index.path());
    assert!(unembedded(&fixture, "m", 0).await.is_empty());
    ask_by_meaning(&fixture, "m", question);
    assert!(!fixture.search(question).await.passages.is_empty());
}

#[tokio::test]
async fn ranks_by_words_and_by_meaning_are_fused() {
    let fixture = house();
    fixture.search("garden").await;
    embed(&fixture, "m").await;
    let question = "garden canaries";
    ask_by_meaning(&fixture, "m", question);
    let found = fixture.search(question).await;
    let first: Vec<&str> = found.passages.iter().take(2).map(|passage| passage.text.as_str()).collect();
    assert!(
        first.contains(&"The garden is shared.") && first.contains(&"A parrot may stay in the flat."),
        "{first:?}"
    );
}

#[tokio::test]
async fn the_similarities_of_the_passages_are_reported_in_their_order() {
    let fixture = house();
    let question = "garden canaries";
    fixture.search(question).await;
    let passages = unembedded(&fixture, "m", 0).await;
    assert!(
        passages.iter().all(|passage| !passage.text.contains("garden")),
        "it gets no vector: {passages:?}"
    );
    fixture.library.embedded(vectors("m", &passages)).await.unwrap();
    ask_by_meaning(&fixture, "m", question);
    let found = fixture.search(question).await;
    let line = found.text.lines().find_map(|line| line.strip_prefix("Similarity to the query, in order: "));
    let similarities: Vec<&str> = line.expect("a line").split(" | ").collect();
    assert_eq!(similarities.len(), found.passages.len(), "{found:?}");
    for (passage, similarity) in found.passages.iter().zip(similarities) {
        let expected = passages.iter().any(|embedded| embedded.text.ends_with(&passage.text)).then(|| {
            let cosine = domain::embedding::cosine(&meaning(question), &meaning(&passage.text)).unwrap();
            format!("{cosine:.3}")
        });
        assert_eq!(similarity, expected.as_deref().unwrap_or("-"), "{}", passage.text);
    }
    let by_words = fixture.search("garden").await;
    assert!(!by_words.text.contains("Similarity"), "a query without a vector: {by_words:?}");
}

#[tokio::test]
async fn vectors_go_with_their_passages_and_with_the_model() {
    let fixture = house();
    fixture.search("garden").await;
    embed(&fixture, "m").await;
    fixture.write("rules.txt", "Cats are animals, too.");
    let before = unembedded(&fixture, "m", 0).await;
    assert!(before.is_empty(), "it was not read yet");
    fixture.search("cats").await;
    let passages = unembedded(&fixture, "m", 0).await;
    assert_eq!(passages.len(), 1, "{passages:?}");
    // The passage changes while the vendor is asked.
    let late = vectors("m", &passages);
    fixture.write("rules.txt", "The boiler is new, the rest is as it was.");
    fixture.search("boiler").await;
    assert_eq!(fixture.library.embedded(late).await.unwrap().stored, 0, "a vector of what is gone");
    assert_eq!(unembedded(&fixture, "m", 0).await.len(), 1);
    assert_eq!(embed(&fixture, "m").await, 1);
    assert_eq!(embed(&fixture, "n").await, 2, "another model starts anew");
    // Another dimension of the same model, too.
    let index = Index::open(fixture.index.path()).unwrap();
    let count = || -> i64 {
        index.connection().query_row("SELECT count(*) FROM vector", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(count(), 2);
    unembedded(&fixture, "o", 0).await;
    assert_eq!(count(), 0, "vectors of another model are dropped at once");
    let passages = unembedded(&fixture, "o", 0).await;
    fixture.library.embedded(vectors("o", &passages[..1])).await.unwrap();
    let mut longer = vectors("o", &passages[1..]);
    longer.vectors[0].components.push(1);
    assert_eq!(fixture.library.embedded(longer).await.unwrap().stored, 1);
    assert_eq!(count(), 1, "vectors of another dimension are dropped");
}

#[tokio::test]
async fn a_passage_that_the_model_rejects_is_not_asked_for_again() {
    let fixture = house();
    fixture.search("garden").await;
    let passages = unembedded(&fixture, "m", 0).await;
    let mut rejected = vectors("m", &passages[..1]);
    rejected.vectors[0].components.clear();
    assert_eq!(fixture.library.embedded(rejected).await.unwrap().stored, 1);
    assert!(unembedded(&fixture, "m", 0).await.iter().all(|passage| passage.id != passages[0].id));
    embed(&fixture, "m").await;
    ask_by_meaning(&fixture, "m", "Are canaries tolerated?");
    assert!(!fixture.search("Are canaries tolerated?").await.passages.is_empty(), "the others are found");
}
