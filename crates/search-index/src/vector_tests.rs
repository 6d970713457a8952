//! Search by meaning: vectors of passages and queries.

use protocol::embedding::{
    EmbeddedPassages, PassageVector, QueryVector, UnembeddedPassage, UnembeddedRequest,
};

use super::tests::{IndexFixture, passage_paths};
use super::*;

/// A vector of three components: how much a text is about money, animals and machines.
fn meaning_vector(text: &str) -> Vec<i8> {
    let topics: [&[&str]; 3] = [
        &["rent", "costs", "pay", "crowns"],
        &["parrot", "canaries", "animals"],
        &["motor", "boiler", "engine"],
    ];
    let count = |words: &[&str]| words.iter().filter(|word| text.to_lowercase().contains(*word)).count();
    let counts: Vec<f32> = topics.iter().map(|words| count(words) as f32 + 0.1).collect();
    domain::embedding::quantize_vector(&counts).unwrap()
}

async fn list_unembedded(fixture: &IndexFixture, model: &str, after: i64) -> Vec<UnembeddedPassage> {
    let asked = UnembeddedRequest { model: model.to_owned(), after, limit: 2 };
    fixture.library.list_unembedded(asked).await.unwrap().passages
}

fn embed_passages(model: &str, passages: &[UnembeddedPassage]) -> EmbeddedPassages {
    let vector = |passage: &UnembeddedPassage| PassageVector {
        id: passage.id,
        digest: passage.digest,
        components: meaning_vector(&passage.text),
    };
    EmbeddedPassages { model: model.to_owned(), vectors: passages.iter().map(vector).collect() }
}

/// Gives every passage a vector, and returns how many got one.
async fn embed_all(fixture: &IndexFixture, model: &str) -> u32 {
    let (mut after, mut stored) = (0, 0);
    loop {
        let passages = list_unembedded(fixture, model, after).await;
        let Some(last) = passages.last() else { return stored };
        after = last.id;
        stored += fixture.library.store_embeddings(embed_passages(model, &passages)).await.unwrap().stored;
    }
}

fn ask_by_meaning(fixture: &IndexFixture, model: &str, query: &str) {
    let (model, components) = (model.to_owned(), meaning_vector(query));
    fixture.library.query_vector(QueryVector { model, query: query.to_owned(), components });
}

fn house_fixture() -> IndexFixture {
    IndexFixture::with_files(&[
        (
            "rules.txt",
            "A parrot may stay in the flat.\nThe boiler is checked each spring.\nThe garden is shared.",
        ),
        ("lease.txt", "The tenant transfers 900 crowns each month."),
    ])
}

#[tokio::test]
async fn search_finds_passage_by_vector() {
    let mut fixture = house_fixture();
    let question = "Are canaries tolerated?";
    let by_words = fixture.search_all(question).await;
    assert!(by_words.passages.is_empty(), "by words there is nothing: {by_words:?}");
    assert_eq!(embed_all(&fixture, "m").await, 4);
    assert!(fixture.search_all(question).await.passages.is_empty(), "the question has no vector yet");
    ask_by_meaning(&fixture, "m", question);
    let found = fixture.search_all(question).await;
    assert_eq!(found.passages[0].text, "A parrot may stay in the flat.", "{found:?}");
    let within = fixture.search_in(question, &["/lease.txt"]).await;
    assert!(passage_paths(&within).iter().all(|path| *path == "/lease.txt"), "{within:?}");
    ask_by_meaning(&fixture, "other", question);
    assert!(fixture.search_all(question).await.passages.is_empty(), "a vector of another model says nothing");
    // The kill of the agent loses none.
    fixture.library = DocumentLibrary::new(fixture.workspace.path(), fixture.index.path());
    assert!(list_unembedded(&fixture, "m", 0).await.is_empty());
    ask_by_meaning(&fixture, "m", question);
    assert!(!fixture.search_all(question).await.passages.is_empty());
}

#[tokio::test]
async fn search_fuses_words_and_meaning() {
    let fixture = house_fixture();
    fixture.search_all("garden").await;
    embed_all(&fixture, "m").await;
    let question = "garden canaries";
    ask_by_meaning(&fixture, "m", question);
    let found = fixture.search_all(question).await;
    let first: Vec<&str> = found.passages.iter().take(2).map(|passage| passage.text.as_str()).collect();
    assert!(
        first.contains(&"The garden is shared.") && first.contains(&"A parrot may stay in the flat."),
        "{first:?}"
    );
}

#[tokio::test]
async fn search_reports_similarities_in_order() {
    let fixture = house_fixture();
    let question = "garden canaries";
    fixture.search_all(question).await;
    let passages = list_unembedded(&fixture, "m", 0).await;
    assert!(
        passages.iter().all(|passage| !passage.text.contains("garden")),
        "it gets no vector: {passages:?}"
    );
    fixture.library.store_embeddings(embed_passages("m", &passages)).await.unwrap();
    ask_by_meaning(&fixture, "m", question);
    let found = fixture.search_all(question).await;
    let line = found.text.lines().find_map(|line| line.strip_prefix("Similarity to the query, in order: "));
    let similarities: Vec<&str> = line.expect("a line").split(" | ").collect();
    assert_eq!(similarities.len(), found.passages.len(), "{found:?}");
    for (passage, similarity) in found.passages.iter().zip(similarities) {
        let expected = passages.iter().any(|embedded| embedded.text.ends_with(&passage.text)).then(|| {
            let cosine = domain::embedding::cosine_similarity(
                &meaning_vector(question),
                &meaning_vector(&passage.text),
            )
            .unwrap();
            format!("{cosine:.3}")
        });
        assert_eq!(similarity, expected.as_deref().unwrap_or("-"), "{}", passage.text);
    }
    let by_words = fixture.search_all("garden").await;
    assert!(!by_words.text.contains("Similarity"), "a query without a vector: {by_words:?}");
}

#[tokio::test]
async fn vectors_go_with_passages_and_model() {
    let fixture = house_fixture();
    fixture.search_all("garden").await;
    embed_all(&fixture, "m").await;
    fixture.write_file("rules.txt", "Cats are animals, too.");
    let before = list_unembedded(&fixture, "m", 0).await;
    assert!(before.is_empty(), "it was not read yet");
    fixture.search_all("cats").await;
    let passages = list_unembedded(&fixture, "m", 0).await;
    assert_eq!(passages.len(), 1, "{passages:?}");
    // The passage changes while the vendor is asked.
    let late = embed_passages("m", &passages);
    fixture.write_file("rules.txt", "The boiler is new, the rest is as it was.");
    fixture.search_all("boiler").await;
    assert_eq!(
        fixture.library.store_embeddings(late).await.unwrap().stored,
        0,
        "a vector of a removed passage"
    );
    assert_eq!(list_unembedded(&fixture, "m", 0).await.len(), 1);
    assert_eq!(embed_all(&fixture, "m").await, 1);
    assert_eq!(embed_all(&fixture, "n").await, 2, "another model starts over");
    // The same for another dimension of the same model.
    let index = Index::open_or_create(fixture.index.path()).unwrap();
    let count = || -> i64 {
        index.connection().query_row("SELECT count(*) FROM vector", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(count(), 2);
    list_unembedded(&fixture, "o", 0).await;
    assert_eq!(count(), 0, "vectors of another model are dropped at once");
    let passages = list_unembedded(&fixture, "o", 0).await;
    fixture.library.store_embeddings(embed_passages("o", &passages[..1])).await.unwrap();
    let mut longer = embed_passages("o", &passages[1..]);
    longer.vectors[0].components.push(1);
    assert_eq!(fixture.library.store_embeddings(longer).await.unwrap().stored, 1);
    assert_eq!(count(), 1, "vectors of another dimension are dropped");
}

#[tokio::test]
async fn rejected_passage_is_not_embedded_again() {
    let fixture = house_fixture();
    fixture.search_all("garden").await;
    let passages = list_unembedded(&fixture, "m", 0).await;
    let mut rejected = embed_passages("m", &passages[..1]);
    rejected.vectors[0].components.clear();
    assert_eq!(fixture.library.store_embeddings(rejected).await.unwrap().stored, 1);
    assert!(list_unembedded(&fixture, "m", 0).await.iter().all(|passage| passage.id != passages[0].id));
    embed_all(&fixture, "m").await;
    ask_by_meaning(&fixture, "m", "Are canaries tolerated?");
    assert!(!fixture.search_all("Are canaries tolerated?").await.passages.is_empty(), "the others are found");
}
