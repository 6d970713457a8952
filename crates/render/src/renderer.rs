//! Renders a growing text.

use std::sync::Arc;

use crate::emit::RawHtml;
use crate::open_line::OpenLine;
use crate::split::Segments;
use crate::tables::CellBudget;
use crate::{CitationSources, emit, prepare, render_prepared, sanitize};

/// A tail up to this length is rendered on each request, a longer one only after enough growth, so that an endless
/// block takes linear time.
const TAIL_EAGER_MAX_BYTES: usize = 2048;
/// A longer tail is rendered again when it has grown by this fraction.
const TAIL_GROWTH: usize = 16;

/// Renders a growing text as HTML: the finished blocks, each rendered once, and the tail after them. Readers see both
/// together.
#[derive(Debug, Default)]
pub struct Renderer {
    finished: Vec<Arc<str>>,
    tail: String,
    segments: Segments,
    /// The cells that tables after the finished blocks may have.
    cells: CellBudget,
    /// The length and the HTML of the closed blocks in the tail, and the cells that are left after them.
    closed: (usize, String, CellBudget),
    /// A trailing carriage return, which may belong to a line feed that follows.
    held: bool,
    tail_html: String,
    /// The last line of the open block, if it can grow by itself.
    line: Option<OpenLine>,
    /// The start of the last line that cannot, in the tail.
    rigid_line: Option<usize>,
    /// The length of the tail at its last rendering; `None` forces a rendering.
    rendered: Option<usize>,
    ended: bool,
}

impl Renderer {
    /// Appends text. `sources` are the sources known so far.
    pub fn push_text(&mut self, markdown: &str, sources: &dyn CitationSources) {
        let mut text = markdown;
        if std::mem::take(&mut self.held) {
            text = text.strip_prefix('\n').unwrap_or(text);
            self.tail.push('\n');
        }
        if let Some(before) = text.strip_suffix('\r') {
            text = before;
            self.held = true;
        }
        self.tail.push_str(&prepare::normalize_markdown(text));
        self.split_finished(sources);
    }

    /// Ends the text and renders the part that was held back.
    pub fn end_text(&mut self) {
        if std::mem::take(&mut self.held) {
            self.tail.push('\n');
        }
        self.ended = true;
        self.rendered = None;
    }

    /// Returns the finished blocks in order, each complete HTML. Blocks are appended, never changed.
    #[must_use]
    pub fn finished_blocks(&self) -> &[Arc<str>] {
        &self.finished
    }

    /// Returns the HTML after the finished blocks. A long tail may lag behind the text by a sixteenth until
    /// [`Self::end_text`].
    pub fn tail_html(&mut self, sources: &dyn CitationSources) -> &str {
        let length = self.tail.len();
        let open = if self.ended { 0 } else { self.segments.open_start() };
        let fresh = self.rendered.is_some_and(|rendered| {
            length == rendered
                || (length - open > TAIL_EAGER_MAX_BYTES && length < rendered + rendered / TAIL_GROWTH)
        });
        if !fresh {
            if self.closed.0 != open {
                let mut cells = self.cells;
                let prepared = prepare::prepare_markdown(&self.tail[..open], sources, true, &mut cells);
                self.closed = (open, render_prepared(&prepared, sources), cells);
            }
            let mut cells = if open == 0 { self.cells } else { self.closed.2 };
            self.tail_html.clear();
            self.tail_html.push_str(&self.closed.1);
            if self.ended {
                let prepared = prepare::prepare_markdown(&self.tail[open..], sources, true, &mut cells);
                self.tail_html.push_str(&render_prepared(&prepared, sources));
            } else if !self.write_open_line(open, cells, sources) {
                let prepared = prepare::prepare_markdown(&self.tail[open..], sources, false, &mut cells);
                let html = emit::emit_html(&prepared, sources, RawHtml::Shown);
                self.tail_html.push_str(&sanitize::ensure_sanitized(html));
            }
            self.rendered = Some(length);
        }
        &self.tail_html
    }

    /// Writes the open block by its last line, if that can grow by itself.
    fn write_open_line(&mut self, open: usize, cells: CellBudget, sources: &dyn CitationSources) -> bool {
        let block = &self.tail[open..];
        if let Some(line) = &mut self.line
            && line.write_block(open, block, sources, &mut self.tail_html)
        {
            return true;
        }
        let last = self.tail.rfind('\n').map_or(0, |end| end + 1);
        if self.rigid_line == Some(last) {
            return false;
        }
        self.line = OpenLine::begin(open, block, sources, cells);
        let Some(line) = &mut self.line else { return false };
        let is_written = line.write_block(open, block, sources, &mut self.tail_html);
        if !is_written {
            (self.line, self.rigid_line) = (None, Some(last));
        }
        is_written
    }

    fn split_finished(&mut self, sources: &dyn CitationSources) {
        let mut start = 0;
        while let Some(cut) = self.segments.next_end(&self.tail, start) {
            let prepared = prepare::prepare_markdown(&self.tail[start..cut], sources, true, &mut self.cells);
            self.finished.push(render_prepared(&prepared, sources).into());
            start = cut;
        }
        if start > 0 {
            self.tail.drain(..start);
            self.segments.forget_prefix(start);
            self.closed = (0, String::new(), self.cells);
            (self.line, self.rigid_line) = (None, None);
            self.rendered = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::answer::AnswerSource;
    use domain::citation::PassagePlace;
    use proptest::prelude::*;

    use super::*;

    /// Renders the open block as a whole.
    fn render_tail_whole(renderer: &Renderer, sources: &dyn CitationSources) -> String {
        let open = renderer.segments.open_start();
        let mut cells = renderer.cells;
        let closed = prepare::prepare_markdown(&renderer.tail[..open], sources, true, &mut cells);
        let closed = if open > 0 { render_prepared(&closed, sources) } else { String::new() };
        let block = prepare::prepare_markdown(&renderer.tail[open..], sources, false, &mut cells);
        closed + &sanitize::ensure_sanitized(emit::emit_html(&block, sources, RawHtml::Shown))
    }

    fn check_growing_text(text: &str, sizes: &[usize]) -> Result<usize, TestCaseError> {
        let place = PassagePlace::Web { url: "https://example.org/a?b&c".into(), title: "t".into() };
        let sources = [AnswerSource { number: 1, place }];
        let sources: &dyn CitationSources = &sources.as_slice();
        let (mut renderer, mut by_line) = (Renderer::default(), 0);
        let mut sizes = sizes.iter().cycle();
        let mut rest = text.chars();
        loop {
            let piece: String = rest.by_ref().take(*sizes.next().unwrap_or(&1)).collect();
            if piece.is_empty() {
                return Ok(by_line);
            }
            renderer.push_text(&piece, sources);
            let shown = renderer.tail_html(sources).to_owned();
            if renderer.rendered == Some(renderer.tail.len())
                && renderer.tail.len() - renderer.segments.open_start() <= TAIL_EAGER_MAX_BYTES
            {
                prop_assert_eq!(
                    shown,
                    render_tail_whole(&renderer, sources),
                    "{:?} of {:?}",
                    renderer.tail,
                    text
                );
            }
            by_line += usize::from(renderer.line.is_some());
        }
    }

    fn line_strategy() -> impl Strategy<Value = String> {
        let bits = prop::sample::select(vec![
            "word ",
            "word ",
            "Words",
            " and ",
            " ",
            "a ",
            "ř ",
            "řeka ",
            "5 ",
            "7",
            ". ",
            ", ",
            ": ",
            "; ",
            "!",
            "? ",
            "(",
            ") ",
            "'",
            "\"",
            "**",
            "**",
            "*",
            "_",
            "__",
            "`",
            "``",
            "[1] ",
            "[",
            "]",
            "(https://x.org/a)",
            "[a](b.c) ",
            "https://x.org/a ",
            "www.",
            "a@b.org ",
            "&amp; ",
            "&",
            "<",
            "> ",
            "~",
            "$",
            "\\",
            "|",
            "#",
            " #",
            "/",
            "-",
            "+ ",
            "snake_case ",
            "2 * 3 ",
            "\u{a0}",
            "\u{2014}",
            "\u{e002}",
            "\t",
            "!",
            "![a](b) ",
            "[^1] ",
            "[ ] ",
            "[x] ",
        ]);
        let marks = prop::sample::select(vec![
            "", "", "", "- ", "- ", "* ", "1. ", "2) ", "## ", "> ", "  - ", "   ", "    ", "- [ ] ", "- - ",
            "> - ", "10. ", "- **", "**", "`", "- `", "| ", "#", "-", "1.",
        ]);
        (marks, prop::collection::vec(bits, 0..12)).prop_map(|(mark, bits)| mark.to_owned() + &bits.concat())
    }

    fn text_strategy() -> impl Strategy<Value = String> {
        let fence = prop::sample::select(vec!["```rust\n", "```\n", "~~~\n", "~~~~ x\n", "``` a`b\n"]);
        let code = prop::sample::select(vec![
            "fn a() {\n",
            "    b < c && d\n",
            "\n",
            "  \n",
            "``\n",
            " ~~\n",
            "e[1]",
            "\t\0x\n",
            "```\n",
            "~~~\n",
        ]);
        let html = prop::sample::select(vec![
            "<details>\n<summary>a</summary>\n\nb\n\n- c\n\n</details>",
            "<b>x</b> H<sub>2</sub>O",
            "<kbd>a</kbd> <i>b",
            "<p>x</p>",
            "|a|b|\n|-|:-:|\n|1 **x**|`2` \"q\"|",
            "***a** b*",
            "**a *b `c` [d](https://x.org/?a=b)* e**",
            "> - a\n>\n>   b\n\n1. c\n   - d",
            "![a](b.png)",
            "<https://x.org/a>",
            "[a \"b\"](c.txt \"t\")",
            "- [x] **a**\n- [ ] b",
            "    code <b>\n\n    x",
            "~~a~~ ~b~ \"c\" &lt; &nbsp;",
        ]);
        let block = prop_oneof![
            1 => html.prop_map(str::to_owned),
            4 => prop::collection::vec(line_strategy(), 1..5).prop_map(|lines| lines.join("\n")),
            1 => (fence, prop::collection::vec(code, 0..6)).prop_map(|(fence, code)| fence.to_owned() + &code.concat()),
        ];
        let gap = prop::sample::select(vec!["\n", "\n\n", "\n\n"]);
        prop::collection::vec((block, gap), 1..5)
            .prop_map(|blocks| blocks.into_iter().map(|(block, gap)| block + gap).collect())
    }

    #[test]
    fn usual_answer_takes_short_ways() {
        let text = "## Notice\n\nThe **notice period** is two months, see `clause 7` [1].\n\n\
                    - **Rent**: due *monthly* ([terms](https://example.org/a)).\n- It ends in 2027.\n\n\
                    ```rust\nfn a() {\n    b < c\n}\n```\n\n| a | b |\n|---|---|\n| 1 | \"2\" |\n";
        let by_line = check_growing_text(text, &[1]).unwrap();
        assert!(by_line * 10 > text.len() * 6, "{by_line} of {} states", text.len());
        let prepared = prepare::prepare_markdown(text, &NO_SOURCES, true, &mut CellBudget::default());
        let html = emit::emit_html(&prepared, &NO_SOURCES, RawHtml::Shown);
        assert!(crate::known_form::normalize_known_form(&html).is_some(), "{html}");
    }

    const NO_SOURCES: &[AnswerSource] = &[];

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1000),
            ..ProptestConfig::default()
        })]

        #[test]
        fn open_line_equals_whole_block(text in text_strategy(), sizes in prop::collection::vec(1_usize..9, 1..8)) {
            check_growing_text(&text, &sizes)?;
        }

        #[test]
        fn known_form_equals_parsed_html(text in text_strategy()) {
            let prepared = prepare::prepare_markdown(&text, &NO_SOURCES, true, &mut CellBudget::default());
            for raw_html in [RawHtml::Shown, RawHtml::Read] {
                let html = emit::emit_html(&prepared, &NO_SOURCES, raw_html);
                if let Some(known) = crate::known_form::normalize_known_form(&html) {
                    prop_assert_eq!(known, sanitize::parse_and_sanitize(&html), "{} of {:?}", html, text);
                }
            }
        }
    }
}
