use std::cell::RefCell;

use domain::indexing::IndexState;

use super::tests::{Fixture, paths};
use super::*;

/// A document with two images, and one without.
fn album() -> Fixture {
    Fixture::with(&[
        ("album.txt", "two pictures of fruit\nimage one.png\nimage two.png"),
        ("b.txt", "apples"),
    ])
}

async fn state(fixture: &Fixture, path: &str) -> IndexState {
    let states = fixture.library.states().await;
    states.iter().find(|(file, _)| file.path == path).expect("it is known").1.state
}

/// Lets the background read what it would, until nothing is left.
async fn keep_up(fixture: &Fixture) {
    fixture.library.touch([]);
    fixture.library.keep_up(|wanted| fixture.lines_of(wanted)).await;
}

#[tokio::test]
async fn images_are_read_in_the_background_after_all_text() {
    let fixture = album();
    fixture.library.recognizes(1).await;
    let found = fixture.search("apples").await;
    assert_eq!(paths(&found), ["/b.txt"]);
    assert!(!found.text.contains("Not searched yet"), "{}", found.text);
    assert_eq!(fixture.read_since(), ["album.txt", "b.txt"], "a search over all waits for no image");
    assert_eq!(state(&fixture, "/album.txt").await, IndexState::Indexing);
    assert!(fixture.search("quince").await.passages.is_empty());

    fixture.write("c.txt", "pears");
    keep_up(&fixture).await;
    assert_eq!(fixture.read_in_order(), ["c.txt", "one.png", "two.png"]);
    assert_eq!(state(&fixture, "/album.txt").await, IndexState::Indexed);
    let found = fixture.search("quince").await;
    assert_eq!(paths(&found), ["/album.txt", "/album.txt"]);
    assert_eq!(found.passages[0].lines, Some((2, 2)));
    assert!(fixture.read_since().is_empty(), "each is read once");

    fixture.write("album.txt", "no picture any more");
    assert!(fixture.search("quince").await.passages.is_empty(), "their text goes with the document");
}

#[tokio::test]
async fn a_question_about_a_document_reads_its_images() {
    let fixture = album();
    fixture.library.recognizes(1).await;
    fixture.attached.replace(vec!["/album.txt".to_owned()]);
    assert_eq!(paths(&fixture.search("quince").await), ["/album.txt", "/album.txt"]);
    assert_eq!(state(&fixture, "/album.txt").await, IndexState::Indexed);
}

#[tokio::test]
async fn images_wait_for_a_machine_that_recognizes_text() {
    let fixture = album();
    keep_up(&fixture).await;
    assert_eq!(fixture.read_since(), ["album.txt", "b.txt"]);
    assert_eq!(state(&fixture, "/album.txt").await, IndexState::Indexed, "nothing more is to be had of it");
    let fixture = fixture.restarted();
    assert!(fixture.library.lacks_recognition().await);
    fixture.library.recognizes(1).await;
    keep_up(&fixture).await;
    assert_eq!(fixture.read_since(), ["one.png", "two.png"], "the document is not read again");
    assert!(!fixture.library.lacks_recognition().await);
}

#[tokio::test]
async fn reading_images_goes_on_after_a_kill_and_ends_with_those_that_fail() {
    let fixture = album();
    fixture.library.recognizes(1).await;
    fixture.search("fruit").await;
    // The agent is killed while the second image is read.
    fixture.library.touch([]);
    let begun = tokio::sync::Notify::new();
    let keep_up = fixture.library.keep_up(async |wanted| {
        if wanted.image.as_ref().is_some_and(|image| image.image.part == "two.png") {
            begun.notify_one();
            std::future::pending::<()>().await;
        }
        fixture.lines_of(wanted).await
    });
    tokio::select! {
        () = keep_up => panic!("it waits for the second image"),
        () = begun.notified() => {}
    }
    assert_eq!(fixture.read_since(), ["album.txt", "b.txt", "one.png"]);
    let fixture = fixture.restarted();
    fixture.library.touch([]);
    let parts = RefCell::new(Vec::new());
    let failing = async |wanted: Wanted| {
        parts.borrow_mut().extend(wanted.image.map(|image| image.image.part));
        Err(ExtractionProblem::too_slow(Duration::from_secs(1)))
    };
    fixture.library.keep_up(failing).await;
    assert_eq!(parts.take(), ["two.png"]);
    assert_eq!(state(&fixture, "/album.txt").await, IndexState::Indexed);
    assert_eq!(paths(&fixture.search("quince").await), ["/album.txt"]);
}

#[tokio::test]
async fn documents_of_an_index_of_an_earlier_release_are_read_again_for_their_images() {
    let fixture = Fixture::with(&[("album.docx", "fruit\nimage one.png"), ("b.txt", "apples")]);
    fixture.library.recognizes(1).await;
    fixture.search("fruit").await;
    let index = Index::open(fixture.index.path()).unwrap();
    index.connection().execute_batch("DROP TABLE image").unwrap();
    drop(index);
    fixture.read_since();
    let fixture = fixture.restarted();
    keep_up(&fixture).await;
    assert_eq!(fixture.read_in_order(), ["album.docx", "one.png"]);
    assert!(!fixture.search("quince").await.passages.is_empty());
}
