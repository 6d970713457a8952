//! Documents that a later release reads in another way.

use std::time::Duration;

use documents::PageRange;
use documents::passages::DocumentPassage;
use domain::indexing::IndexState;
use domain::unread::UnreadReason;

use super::tests::{IndexFixture, passage_paths};
use super::{ExtractionProblem, Index, PassageBatch, Wanted};

/// Marks all documents as read by an earlier release.
fn date_back(fixture: &IndexFixture) {
    let index = Index::open_or_create(fixture.index.path()).unwrap();
    index.connection().execute("UPDATE file SET reader = 1", []).unwrap();
    drop(index);
    fixture.read_since();
}

async fn keep_up(fixture: &IndexFixture) {
    fixture.library.touch_files([]);
    fixture.library.keep_up(|wanted| fixture.lines_of(wanted)).await;
}

#[tokio::test]
async fn changed_reader_rereads_documents_last() {
    let long = "pages\none\ntwo\nthree\nfour\nfive\nsix\nmulberry";
    let fixture =
        IndexFixture::with_files(&[("a.docx", "an apple"), ("b.txt", "a pear"), ("long.odt", long)]);
    fixture.search_all("apple").await;
    date_back(&fixture);
    fixture.write_file("new.txt", "a plum, larger than the others: ".repeat(9).as_str());
    let found = fixture.search_all("apple").await;
    assert_eq!(passage_paths(&found), ["/a.docx"]);
    assert!(!found.text.contains("Not searched yet"), "{}", found.text);
    assert_eq!(fixture.read_since(), ["new.txt"], "no search waits for them");
    let states = fixture.library.file_states().await;
    assert!(states.iter().all(|(_, indexing)| indexing.state == IndexState::Indexed), "{states:?}");

    fixture.write_file("last.txt", "a quince, larger than the others: ".repeat(9).as_str());
    keep_up(&fixture).await;
    assert_eq!(fixture.read_in_order(), ["last.txt", "a.docx", "long.odt", "long.odt"]);
    keep_up(&fixture).await;
    assert!(fixture.read_since().is_empty(), "each is read once");
    assert_eq!(fixture.search_all("apple").await.passages.len(), 1);
    assert_eq!(fixture.search_all("mulberry").await.passages.len(), 1);
}

#[tokio::test]
async fn document_with_cut_page_is_partial() {
    let fixture =
        IndexFixture::with_files(&[("cut.pdf", "pages\n2\n3\n4\n5\n6\n7"), ("whole.pdf", "pages\n2\n3")]);
    let cut = |wanted: Wanted| async {
        let is_cut = wanted.file.ends_with("cut.pdf") && wanted.pages.is_none_or(|(first, _)| first == 1);
        let batch = fixture.lines_of(wanted).await?;
        Ok(PassageBatch { cut_pages: if is_cut { vec![2] } else { Vec::new() }, ..batch })
    };
    fixture.library.touch_files([]);
    fixture.library.keep_up(cut).await;
    let states = fixture.library.file_states().await;
    let outcomes: Vec<_> = states.iter().map(|(_, indexing)| (indexing.state, indexing.reason)).collect();
    assert_eq!(outcomes, [(IndexState::Partial, Some(UnreadReason::Long)), (IndexState::Indexed, None)]);
    let pages = states[0].1.pages;
    assert_eq!(pages.map(|pages| (pages.read, pages.of)), Some((7, 7)), "the pages after it are read");
}

#[tokio::test]
async fn failed_reread_keeps_indexed_text() {
    let fixture = IndexFixture::with_files(&[("a.docx", "an apple")]);
    fixture.search_all("apple").await;
    date_back(&fixture);
    fixture.library.touch_files([]);
    let refused = || ExtractionProblem {
        reason: UnreadReason::Broken,
        text: "it is broken".to_owned(),
        passing: false,
    };
    tokio::time::timeout(Duration::from_secs(60), fixture.library.keep_up(|_| async { Err(refused()) }))
        .await
        .unwrap();
    let states = fixture.library.file_states().await;
    assert_eq!(states[0].1.state, IndexState::Indexed);
    assert_eq!(passage_paths(&fixture.search_all("apple").await), ["/a.docx"]);
    keep_up(&fixture).await;
    assert!(fixture.read_since().is_empty(), "it is not tried again");
}

#[tokio::test]
async fn pages_with_dropped_passages_are_unread() {
    let fixture = IndexFixture::with_files(&[("long.zip", "pages")]);
    let long = |_| async {
        let piece = |page| DocumentPassage {
            page: Some(page),
            lines: None,
            heading: None,
            columns: None,
            text: format!("page {page}"),
        };
        let pieces = (1..=30_000).map(|number| piece(number / 10 + 1)).collect();
        let span = Some(PageRange { first: 1, last: 3_001, of: 3_001 });
        Ok(PassageBatch { pieces, span, ..PassageBatch::default() })
    };
    fixture.library.touch_files([]);
    fixture.library.keep_up(long).await;
    let states = fixture.library.file_states().await;
    let indexing = states[0].1;
    assert_eq!((indexing.state, indexing.reason), (IndexState::Partial, Some(UnreadReason::Long)));
    assert_eq!(indexing.pages.map(|pages| (pages.read, pages.of)), Some((2_000, 3_001)));
}

#[tokio::test]
async fn slow_reread_keeps_text_retries_later() {
    let fixture = IndexFixture::with_files(&[("a.docx", "an apple"), ("part.docx", "a pear")]);
    let partly = |wanted: Wanted| async {
        let is_part = wanted.file.ends_with("part.docx");
        let batch = fixture.lines_of(wanted).await?;
        Ok(PassageBatch { cut: is_part, ..batch })
    };
    fixture.library.touch_files([]);
    fixture.library.keep_up(partly).await;
    date_back(&fixture);
    let slow = || ExtractionProblem::too_slow(Duration::from_secs(40));
    for _ in 0..3 {
        fixture.library.touch_files([]);
        let tried = fixture.library.keep_up(|wanted| async {
            fixture.lines_of(wanted).await?;
            Err(slow())
        });
        tokio::time::timeout(Duration::from_secs(60), tried).await.unwrap();
    }
    assert_eq!(fixture.read_since(), ["a.docx", "part.docx"], "each once by this agent");
    let states = fixture.library.file_states().await;
    let outcomes: Vec<_> = states.iter().map(|(_, indexing)| (indexing.state, indexing.reason)).collect();
    assert_eq!(outcomes, [(IndexState::Indexed, None), (IndexState::Partial, Some(UnreadReason::Long))]);
    assert_eq!(passage_paths(&fixture.search_all("apple").await), ["/a.docx"]);
    assert_eq!(passage_paths(&fixture.search_all("pear").await), ["/part.docx"]);
    let fixture = fixture.restart_library();
    keep_up(&fixture).await;
    assert_eq!(fixture.read_since(), ["a.docx", "part.docx"], "the next agent tries again");
}
