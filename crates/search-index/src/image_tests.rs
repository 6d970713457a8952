use std::cell::RefCell;

use documents::EmbeddedImage;
use domain::indexing::IndexState;
use domain::unread::{UnreadImage, UnreadImages, UnreadReason};

use super::tests::{IndexFixture, passage_paths};
use super::*;

/// A document with two images, and one without.
fn album_fixture() -> IndexFixture {
    IndexFixture::with_files(&[
        ("album.txt", "two pictures of fruit\nimage one.png\nimage two.png"),
        ("b.txt", "apples"),
    ])
}

async fn index_state(fixture: &IndexFixture, path: &str) -> IndexState {
    index_outcome(fixture, path).await.0
}

async fn index_outcome(fixture: &IndexFixture, path: &str) -> (IndexState, Option<UnreadReason>) {
    let states = fixture.library.file_states().await;
    let indexing = states.iter().find(|(file, _)| file.path == path).expect("it is known").1;
    (indexing.state, indexing.reason)
}

/// Runs the background reading until nothing is left.
async fn keep_up(fixture: &IndexFixture) {
    fixture.library.touch_files([]);
    fixture.library.keep_up(|wanted| fixture.lines_of(wanted)).await;
}

#[tokio::test]
async fn images_are_read_after_all_text() {
    let fixture = album_fixture();
    fixture.library.record_languages(1).await;
    let found = fixture.search_all("apples").await;
    assert_eq!(passage_paths(&found), ["/b.txt"]);
    assert!(!found.text.contains("Not searched yet"), "{}", found.text);
    assert_eq!(fixture.read_since(), ["album.txt", "b.txt"], "a search over all waits for no image");
    assert_eq!(index_state(&fixture, "/album.txt").await, IndexState::Indexing);
    assert!(fixture.search_all("quince").await.passages.is_empty());

    fixture.write_file("c.txt", "pears");
    keep_up(&fixture).await;
    assert_eq!(fixture.read_in_order(), ["c.txt", "one.png", "two.png"]);
    assert_eq!(index_state(&fixture, "/album.txt").await, IndexState::Indexed);
    let found = fixture.search_all("quince").await;
    assert_eq!(passage_paths(&found), ["/album.txt", "/album.txt"]);
    assert_eq!(found.passages[0].lines, Some((2, 2)));
    assert!(fixture.read_since().is_empty(), "each is read once");

    fixture.write_file("album.txt", "no picture any more");
    assert!(fixture.search_all("quince").await.passages.is_empty(), "their text goes with the document");
}

#[tokio::test]
async fn wanted_image_lists_next_images() {
    let fixture = album_fixture();
    fixture.library.record_languages(1).await;
    fixture.library.touch_files([]);
    let asked = RefCell::new(Vec::new());
    let read = async |wanted: Wanted| {
        asked.borrow_mut().extend(wanted.image.iter().map(|image| image.following.clone()));
        fixture.lines_of(wanted).await
    };
    fixture.library.keep_up(read).await;
    assert_eq!(asked.take(), [vec!["two.png".to_owned()], Vec::new()]);
}

#[tokio::test]
async fn search_named_document_reads_images() {
    let fixture = album_fixture();
    fixture.library.record_languages(1).await;
    fixture.attached.replace(vec!["/album.txt".to_owned()]);
    assert_eq!(passage_paths(&fixture.search_all("quince").await), ["/album.txt", "/album.txt"]);
    assert_eq!(index_state(&fixture, "/album.txt").await, IndexState::Indexed);
}

#[tokio::test]
async fn images_wait_for_recognizer() {
    let fixture = album_fixture();
    keep_up(&fixture).await;
    assert_eq!(fixture.read_since(), ["album.txt", "b.txt"]);
    assert_eq!(
        index_state(&fixture, "/album.txt").await,
        IndexState::Indexed,
        "nothing more is to be had of it"
    );
    let fixture = fixture.restart_library();
    assert!(fixture.library.lacks_recognition().await);
    fixture.library.record_languages(1).await;
    keep_up(&fixture).await;
    assert_eq!(fixture.read_since(), ["one.png", "two.png"], "the document is not read again");
    assert!(!fixture.library.lacks_recognition().await);
}

#[tokio::test]
async fn image_reading_after_kill_resumes() {
    let fixture = album_fixture();
    fixture.library.record_languages(1).await;
    fixture.search_all("fruit").await;
    // The agent is killed while the second image is read.
    fixture.library.touch_files([]);
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
    let fixture = fixture.restart_library();
    fixture.library.touch_files([]);
    let parts = RefCell::new(Vec::new());
    let failing = async |wanted: Wanted| {
        parts.borrow_mut().extend(wanted.image.map(|image| image.image.part));
        Err(ExtractionProblem::too_slow(Duration::from_secs(1)))
    };
    fixture.library.keep_up(failing).await;
    assert_eq!(parts.take(), ["two.png"]);
    let unread = Some(UnreadReason::Images(UnreadImages::from_counts([0, 0, 0, 1])));
    assert_eq!(index_outcome(&fixture, "/album.txt").await, (IndexState::Partial, unread));
    assert_eq!(passage_paths(&fixture.search_all("quince").await), ["/album.txt"]);
}

#[tokio::test]
async fn search_counts_unread_images_of_document() {
    let fixture = album_fixture();
    fixture.library.record_languages(1).await;
    fixture.attached.replace(vec!["/album.txt".to_owned()]);
    let found = fixture.search_all("fruit").await;
    assert!(found.unread.is_empty(), "{found:?}");

    fixture.write_file(
        "album.txt",
        "four pictures of fruit\nimage 1.png\nimage 2.png\nimage 3.png\nimage 4.png",
    );
    let outcomes = |wanted: Wanted| async {
        let part = wanted.image.as_ref().map(|image| image.image.part.clone());
        match part.as_deref() {
            Some("1.png") => Ok(PassageBatch::of_unread_image(UnreadImage::TooSlow)),
            Some("2.png") => Ok(PassageBatch::of_unread_image(UnreadImage::TooLarge)),
            Some("3.png") => Err(ExtractionProblem::too_slow(Duration::from_secs(1))),
            Some(_) => fixture.lines_of(wanted).await,
            None => {
                let batch = fixture.lines_of(wanted).await;
                batch.map(|batch| PassageBatch { unread_images: [1, 0, 7, 0], ..batch })
            }
        }
    };
    fixture.library.touch_files([]);
    fixture.library.keep_up(outcomes).await;
    let counts = UnreadImages::from_counts([2, 1, 7, 1]);
    let expected = (IndexState::Partial, Some(UnreadReason::Images(counts)));
    assert_eq!(index_outcome(&fixture, "/album.txt").await, expected);
    let found = fixture.search_all("quince").await;
    assert_eq!(passage_paths(&found), ["/album.txt"]);
    assert_eq!(found.unread.len(), 1, "{found:?}");
    assert_eq!(found.unread[0].reason, UnreadReason::Images(counts).to_string());
    assert!(found.text.contains("too large: 2, took too long: 1, too many: 7"), "{}", found.text);
    let fixture = fixture.restart_library();
    fixture.library.touch_files([]);
    keep_up(&fixture).await;
    assert_eq!(index_outcome(&fixture, "/album.txt").await, expected, "they are not read again");
    fixture.write_file("album.txt", "no picture any more");
    keep_up(&fixture).await;
    assert_eq!(index_outcome(&fixture, "/album.txt").await, (IndexState::Indexed, None));
}

#[tokio::test]
async fn long_document_has_bounded_images() {
    let fixture = IndexFixture::with_files(&[("pages.txt", "pages 1\n2\n3\n4\n5\n6\n7\n8\n9\n10")]);
    fixture.library.record_languages(1).await;
    let read = RefCell::new(0);
    let pictured = |wanted: Wanted| async {
        if wanted.image.is_some() {
            *read.borrow_mut() += 1;
        }
        let mut batch = fixture.lines_of(wanted).await?;
        let image = |page| EmbeddedImage { part: String::new(), page: Some(page), line: None, heading: None };
        let pages = batch.span.map(|span| span.first..=span.last).into_iter().flatten();
        batch.images = pages.flat_map(|page| std::iter::repeat_n(image(page), 30)).collect();
        Ok(batch)
    };
    fixture.library.touch_files([]);
    fixture.library.keep_up(pictured).await;
    assert_eq!(read.take(), 100);
    let unread = Some(UnreadReason::Images(UnreadImages::from_counts([0, 0, 200, 0])));
    assert_eq!(index_outcome(&fixture, "/pages.txt").await, (IndexState::Partial, unread));
}

#[tokio::test]
async fn image_repeating_page_text_is_dropped() {
    let page = "pages 1 0 the picture same.png shows a quince";
    let fixture = IndexFixture::with_files(&[("pages.txt", page)]);
    fixture.library.record_languages(1).await;
    let pictured = |wanted: Wanted| async {
        let is_page = wanted.image.is_none();
        let mut batch = fixture.lines_of(wanted).await?;
        let image =
            |part: &str| EmbeddedImage { part: part.into(), page: Some(1), line: None, heading: None };
        if is_page {
            batch.images = vec![image("same.png"), image("quite another one.png"), image("1\n0\n")];
        }
        Ok(batch)
    };
    fixture.library.touch_files([]);
    fixture.library.keep_up(pictured).await;
    let texts = fixture.search_all("quince").await.passages.into_iter().map(|passage| passage.text);
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    let of_archive = "the picture 1\n0\n shows a quince";
    assert_eq!(
        texts,
        [page, of_archive, "the picture quite another one.png shows a quince"],
        "pages of archives are long"
    );
}

#[tokio::test]
async fn new_files_precede_further_images() {
    let fixture = album_fixture();
    fixture.library.record_languages(1).await;
    fixture.search_all("apples").await;
    fixture.read_since();
    let interrupted = |wanted: Wanted| async {
        if wanted.image.is_some() && fixture.workspace.path().join("new.txt").symlink_metadata().is_err() {
            fixture.write_file("new.txt", "pears");
            fixture.library.touch_files([]);
        }
        fixture.lines_of(wanted).await
    };
    fixture.library.touch_files([]);
    for _ in 0..2 {
        fixture.library.keep_up(interrupted).await;
    }
    let read = fixture.read_in_order();
    let position = |name: &str| read.iter().position(|read| read == name);
    assert!(position("new.txt") < position("two.png"), "{read:?}");
    assert_eq!(read.len(), 3, "{read:?}");
}

#[tokio::test]
async fn document_images_share_time_limit() {
    let images: String = (0..100).map(|number| format!("image {number}.png\n")).collect();
    let fixture = IndexFixture::with_files(&[("album.txt", &*images)]);
    fixture.library.record_languages(1).await;
    fixture.search_all("picture").await;
    tokio::time::pause();
    let read = RefCell::new(0);
    let slow = |wanted: Wanted| async {
        tokio::time::sleep(Duration::from_secs(19)).await;
        *read.borrow_mut() += 1;
        fixture.lines_of(wanted).await
    };
    while index_state(&fixture, "/album.txt").await == IndexState::Indexing {
        fixture.library.touch_files([]);
        fixture.library.keep_up(slow).await;
    }
    assert_eq!(read.take(), 32, "the last ends after ten minutes");
    let expected =
        (IndexState::Partial, Some(UnreadReason::Images(UnreadImages::from_counts([0, 68, 0, 0]))));
    assert_eq!(index_outcome(&fixture, "/album.txt").await, expected);
}

#[tokio::test]
async fn old_index_rereads_documents_for_images() {
    let fixture = IndexFixture::with_files(&[("album.docx", "fruit\nimage one.png"), ("b.txt", "apples")]);
    fixture.library.record_languages(1).await;
    fixture.search_all("fruit").await;
    let index = Index::open_or_create(fixture.index.path()).unwrap();
    index.connection().execute_batch("DROP TABLE image_count").unwrap();
    drop(index);
    fixture.read_since();
    let fixture = fixture.restart_library();
    keep_up(&fixture).await;
    assert_eq!(fixture.read_in_order(), ["album.docx", "one.png"]);
    assert!(!fixture.search_all("quince").await.passages.is_empty());
}
