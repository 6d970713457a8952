//! Measures the rendering cost per token of an answer that is displayed after every token.

use std::time::Instant;

use domain::answer::AnswerSource;
use domain::citation::{PassagePlace, Stripper};
use render::{CitationSources, Renderer, render_answer};

const TOKENS: usize = 10_000;

#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
fn main() {
    let place =
        PassagePlace::File { path: "/uploads/lease.pdf".into(), page: Some(3), lines: None, page_name: None };
    let sources = vec![AnswerSource { number: 1, place }];
    let sources: &dyn CitationSources = &sources.as_slice();
    for text in ["a *b*".to_owned(), "word *word* ".repeat(20), "word word [1] ".repeat(20)] {
        let begun = Instant::now();
        for _ in 0..2000 {
            let _html = render_answer(&text, sources);
        }
        println!("{} bytes: {:?}", text.len(), begun.elapsed() / 2000);
    }
    let paragraph = "The term of the lease is **two years** and begins on the first of January; the rent is due \
                     monthly in advance, as the contract says in its third article [1]. ";
    let prose =
        format!("## Term\n\n{}\n\n- one point of *several* [1]\n- another point\n\n", paragraph.repeat(3));
    let list = "- a point of a list that never ends, with a mark [1]\n";
    let code = format!("```python\n{}", "value[1] = compute(value, 2)  # a comment\n".repeat(2000));
    let line = "one paragraph without an end and with `code` and a mark [1] ".repeat(2000);
    for (name, text) in
        [("prose", prose.repeat(100)), ("list", list.repeat(2000)), ("code", code), ("one paragraph", line)]
    {
        let text: String = text.chars().take(TOKENS * 4).collect();
        let tokens: Vec<&str> = (0..TOKENS).filter_map(|at| text.get(at * 4..at * 4 + 4)).collect();
        let begun = Instant::now();
        let mut renderer = Renderer::default();
        let mut longest = std::time::Duration::ZERO;
        for token in &tokens {
            let one = Instant::now();
            renderer.push_text(token, sources);
            let _tail = renderer.tail_html(sources);
            longest = longest.max(one.elapsed());
        }
        let incremental = begun.elapsed() / u32::try_from(tokens.len()).unwrap_or(1);
        let begun = Instant::now();
        let html = render_answer(&text, sources);
        let at_once = begun.elapsed();
        let begun = Instant::now();
        let mut stripper = Stripper::default();
        tokens.iter().for_each(|token| stripper.push(token, |_| true));
        let strip = begun.elapsed() / u32::try_from(tokens.len()).unwrap_or(1);
        println!(
            "{name}: {incremental:?} a token, longest {longest:?}; whole {at_once:?} for {} KiB of HTML; marks out {strip:?} a token",
            html.len() / 1024
        );
    }
}
