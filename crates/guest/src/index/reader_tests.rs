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
    index.connection().execute("UPDATE file SET reader = 1", []).unwrap();
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
async fn a_document_with_a_page_that_was_cut_is_read_in_part() {
    let fixture = Fixture::with(&[("cut.pdf", "pages\n2\n3\n4\n5\n6\n7"), ("whole.pdf", "pages\n2\n3")]);
    let cut = |wanted: Wanted| async {
        let is_cut = wanted.file.ends_with("cut.pdf") && wanted.pages.is_none_or(|(first, _)| first == 1);
        let batch = fixture.lines_of(wanted).await?;
        Ok(Batch { cut_pages: if is_cut { vec![2] } else { Vec::new() }, ..batch })
    };
    fixture.library.touch([]);
    fixture.library.keep_up(cut).await;
    let states = fixture.library.states().await;
    let outcomes: Vec<_> = states.iter().map(|(_, indexing)| (indexing.state, indexing.reason)).collect();
    assert_eq!(outcomes, [(IndexState::Partial, Some(UnreadReason::Long)), (IndexState::Indexed, None)]);
    let pages = states[0].1.pages;
    assert_eq!(pages.map(|pages| (pages.read, pages.of)), Some((7, 7)), "the pages after it are read");
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
        let piece = |page| Piece {
            page: Some(page),
            lines: None,
            heading: None,
            columns: None,
            text: format!("page {page}"),
        };
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
async fn what_was_read_before_stays_if_it_cannot_be_read_now_and_is_tried_again_later() {
    let fixture = Fixture::with(&[("a.docx", "an apple"), ("part.docx", "a pear")]);
    let partly = |wanted: Wanted| async {
        let is_part = wanted.file.ends_with("part.docx");
        let batch = fixture.lines_of(wanted).await?;
        Ok(Batch { cut: is_part, ..batch })
    };
    fixture.library.touch([]);
    fixture.library.keep_up(partly).await;
    date_back(&fixture);
    let slow = || ExtractionProblem::too_slow(Duration::from_secs(40));
    for _ in 0..3 {
        fixture.library.touch([]);
        let tried = fixture.library.keep_up(|wanted| async {
            fixture.lines_of(wanted).await?;
            Err(slow())
        });
        tokio::time::timeout(Duration::from_secs(60), tried).await.unwrap();
    }
    assert_eq!(fixture.read_since(), ["a.docx", "part.docx"], "each once by this agent");
    let states = fixture.library.states().await;
    let outcomes: Vec<_> = states.iter().map(|(_, indexing)| (indexing.state, indexing.reason)).collect();
    assert_eq!(outcomes, [(IndexState::Indexed, None), (IndexState::Partial, Some(UnreadReason::Long))]);
    assert_eq!(paths(&fixture.search("apple").await), ["/a.docx"]);
    assert_eq!(paths(&fixture.search("pear").await), ["/part.docx"]);
    let fixture = fixture.restarted();
    keep_up(&fixture).await;
    assert_eq!(fixture.read_since(), ["a.docx", "part.docx"], "the next agent tries again");
}
