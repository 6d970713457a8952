//! Documents that a later release reads in another way.

use std::time::Duration;

use domain::indexing::IndexState;
use domain::unread::UnreadReason;

use super::tests::{Fixture, paths};
use super::{Batch, ExtractionProblem, Index, Wanted};
use crate::documents::Span;
use crate::documents::passages::Piece;

/// Has all documents been read by an earlier release.
fn date_back(fixture: &Fixture) {
    let index = Index::open(fixture.index.path()).unwrap();
    index.connection().execute("UPDATE file SET reader = reader - 1", []).unwrap();
    drop(index);
    fixture.read_since();
}

async fn keep_up(fixture: &Fixture) {
    fixture.library.touch([]);
    fixture.library.keep_up(|wanted| fixture.lines_of(wanted)).await;
}

#[tokio::test]
async fn documents_that_are_read_in_another_way_are_read_again_after_all_others() {
    let long = "pages\none\ntwo\nthree\nfour\nfive\nsix\nmulberry";
    let fixture = Fixture::with(&[("a.docx", "an apple"), ("b.txt", "a pear"), ("long.odt", long)]);
    fixture.search("apple").await;
    date_back(&fixture);
    fixture.write("new.txt", "a plum, larger than the others: ".repeat(9).as_str());
    let found = fixture.search("apple").await;
    assert_eq!(paths(&found), ["/a.docx"]);
    assert!(!found.text.contains("Not searched yet"), "{}", found.text);
    assert_eq!(fixture.read_since(), ["new.txt"], "no search waits for them");
    let states = fixture.library.states().await;
    assert!(states.iter().all(|(_, indexing)| indexing.state == IndexState::Indexed), "{states:?}");

    fixture.write("last.txt", "a quince, larger than the others: ".repeat(9).as_str());
    keep_up(&fixture).await;
    assert_eq!(fixture.read_in_order(), ["last.txt", "a.docx", "long.odt", "long.odt"]);
    keep_up(&fixture).await;
    assert!(fixture.read_since().is_empty(), "each is read once");
    assert_eq!(fixture.search("apple").await.passages.len(), 1);
    assert_eq!(fixture.search("mulberry").await.passages.len(), 1);
}

#[tokio::test]
async fn what_was_read_before_stays_if_it_cannot_be_read_again() {
    let fixture = Fixture::with(&[("a.docx", "an apple")]);
    fixture.search("apple").await;
    date_back(&fixture);
    fixture.library.touch([]);
    let refused = || ExtractionProblem {
        reason: UnreadReason::Broken,
        text: "it is broken".to_owned(),
        passing: false,
    };
    tokio::time::timeout(Duration::from_secs(60), fixture.library.keep_up(|_| async { Err(refused()) }))
        .await
        .unwrap();
    let states = fixture.library.states().await;
    assert_eq!(states[0].1.state, IndexState::Indexed);
    assert_eq!(paths(&fixture.search("apple").await), ["/a.docx"]);
    keep_up(&fixture).await;
    assert!(fixture.read_since().is_empty(), "it is not tried again");
}

#[tokio::test]
async fn pages_whose_passages_do_not_fit_are_not_said_to_be_read() {
    let fixture = Fixture::with(&[("long.zip", "pages")]);
    let long = |_| async {
        let piece =
            |page| Piece { page: Some(page), lines: None, heading: None, text: format!("page {page}") };
        let pieces = (1..=30_000).map(|number| piece(number / 10 + 1)).collect();
        let span = Some(Span { first: 1, last: 3_001, of: 3_001 });
        Ok(Batch { pieces, span, ..Batch::default() })
    };
    fixture.library.touch([]);
    fixture.library.keep_up(long).await;
    let states = fixture.library.states().await;
    let indexing = states[0].1;
    assert_eq!((indexing.state, indexing.reason), (IndexState::Partial, Some(UnreadReason::Long)));
    assert_eq!(indexing.pages.map(|pages| (pages.read, pages.of)), Some((2_000, 3_001)));
}

#[tokio::test]
async fn one_file_of_an_archive_that_ends_its_reader_does_not_keep_others_from_being_read() {
    for (of, culprits) in [(20, vec![5, 13]), (3, vec![1]), (1, vec![1]), (9, vec![9])] {
        let fixture = Fixture::with(&[("files.zip", "pages")]);
        let read = |wanted: Wanted| {
            let (first, last) = wanted.pages.unwrap_or((1, of));
            let last = last.min(of);
            let ends = culprits.iter().any(|culprit| (first..=last).contains(culprit));
            let piece =
                |page| Piece { page: Some(page), lines: None, heading: None, text: format!("apple{page}") };
            let batch = Batch {
                pieces: (first..=last).map(piece).collect(),
                span: Some(Span { first, last, of }),
                holds_files: true,
                ..Batch::default()
            };
            let text = "it needs too much memory".to_owned();
            let problem = ExtractionProblem { reason: UnreadReason::TooMuchMemory, text, passing: true };
            async move { if ends { Err(problem) } else { Ok(batch) } }
        };
        fixture.library.touch([]);
        fixture.library.keep_up(read).await;
        let states = fixture.library.states().await;
        let indexing = states[0].1;
        assert_eq!((indexing.state, indexing.reason), (IndexState::Partial, Some(UnreadReason::InnerFiles)));
        assert_eq!(indexing.pages.map(|pages| (pages.read, pages.of)), Some((of, of)));
        for page in 1..=of {
            let text = format!("apple{page}");
            let found = fixture.search(&text).await.passages;
            let is_found = found.iter().any(|passage| passage.text == text);
            assert_eq!(is_found, !culprits.contains(&page), "{page} of {of}");
        }
        assert!(!fixture.search("memory").await.passages.is_empty(), "the others say why");
    }
}
