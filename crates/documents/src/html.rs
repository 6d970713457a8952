//! Converts HTML to readable text: paragraphs, headings, list items and table rows become lines.
//!
//! Uses only the tokenizer of html5ever: without a tree, nesting depth costs nothing.

use html::{HtmlToken, HtmlTokens, Tag};

use super::mathml::MathEquation;
use super::output::DocumentWriter;
use super::text::decode_declared;
use super::xml::alternative_text;
use super::{DocumentFormat, Extracted};

/// The longest address of an image: others hold the image itself.
const ADDRESS_MAX_BYTES: usize = 1024;

/// The class of the elements by which a widespread program (KaTeX) draws an equation that precedes them as MathML.
const EQUATION_COPY: &str = "katex-html";

/// The prefix of the number of an image in older books of Kindle, which have no addresses.
pub(super) const NUMBERED: &str = "recindex:";

/// Extracts the text of a page. Its images are named by their addresses.
pub(super) fn extract_html(bytes: &[u8]) -> Extracted {
    let text = decode_declared(bytes, "charset=");
    let mut page = HtmlReader::new();
    for token in HtmlTokens::new(&text) {
        match token {
            HtmlToken::Text(text) => page.push_text(&text),
            HtmlToken::Start(tag) => page.start_element(&tag),
            HtmlToken::End(name) => page.end_element(&name),
        }
    }
    page.end_equation();
    page.end_line();
    page.writer.finish_document(DocumentFormat::Html)
}

struct HtmlReader {
    writer: DocumentWriter,
    line: String,
    /// The depth of elements whose text is not visible.
    hidden: u32,
    /// The depth of drawings (SVG).
    drawings: u32,
    /// The depth of tables; inside, cells are separated by tabs and a row is a line.
    tables: u32,
    in_heading: bool,
    in_preformatted: bool,
    equation: Option<MathEquation>,
    /// The depth of elements that draw an equation once more.
    copies: u32,
}

impl HtmlReader {
    fn new() -> Self {
        Self {
            writer: DocumentWriter::new(),
            line: String::new(),
            hidden: 0,
            drawings: 0,
            tables: 0,
            in_heading: false,
            in_preformatted: false,
            equation: None,
            copies: 0,
        }
    }

    fn push_text(&mut self, text: &str) {
        if let Some(equation) = &mut self.equation {
            return equation.push_text(text);
        }
        if self.hidden > 0 || self.copies > 0 || self.writer.is_full() {
            return;
        }
        if !self.in_preformatted {
            // Line breaks and tabs of the source are spaces.
            self.line.extend(text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }));
            return;
        }
        for (index, line) in text.split('\n').enumerate() {
            if index > 0 {
                self.end_line();
            }
            self.line.push_str(line.trim_end_matches('\r'));
        }
    }

    /// Reads a tag of an equation. Returns false for other tags, and ends the equation at an element that it cannot
    /// contain.
    fn start_in_equation(&mut self, tag: &Tag<'_>) -> bool {
        let name = tag.name.as_str();
        if is_block(name) || is_heading(name) || matches!(name, "table" | "tr" | "td" | "th" | "pre") {
            self.copies = 0;
            self.end_equation();
            return false;
        }
        if self.copies > 0 {
            self.copies += u32::from(name == "span" && !tag.self_closing);
            return true;
        }
        let is_copy = || tag.find_attribute("class").is_some_and(|class| class == EQUATION_COPY);
        match &mut self.equation {
            Some(equation) => {
                let attribute = |name: &str| tag.find_attribute(name).map(std::borrow::Cow::into_owned);
                equation.start_element(name, attribute, !tag.self_closing);
                true
            }
            None if name == "math" && self.hidden == 0 && !tag.self_closing => {
                if tag.find_attribute("display").is_some_and(|display| display == "block") {
                    self.break_line();
                }
                let text = tag.find_attribute("alttext").map(std::borrow::Cow::into_owned);
                self.equation = Some(MathEquation::with_source(text));
                true
            }
            None if name == "span" && is_copy() => {
                self.copies = u32::from(!tag.self_closing);
                true
            }
            None => false,
        }
    }

    /// Ends the equation where it should be ended, or before.
    fn end_equation(&mut self) {
        if let Some(equation) = self.equation.take() {
            self.line.push_str(&equation.finish_equation());
        }
    }

    /// Writes the alternative text of a picture: as a line, or inside the current line.
    fn alternative_text(&mut self, tag: &Tag<'_>) {
        let alternative = tag.find_attribute("alt").unwrap_or_default();
        let Some(text) = alternative_text(&alternative) else { return };
        let is_own_line = self.line.trim().is_empty() && self.tables == 0 && !self.in_heading;
        let line = if is_own_line { format!("Picture: {text}") } else { format!(" (Picture: {text}) ") };
        self.push_text(&line);
        if is_own_line {
            self.end_line();
        }
    }

    fn start_element(&mut self, tag: &Tag<'_>) {
        if self.start_in_equation(tag) {
            return;
        }
        if let Some(text) = tag.raw_text() {
            // Only the page's title is shown of the elements without markup, such as scripts.
            if tag.name == "title" && self.drawings == 0 {
                self.end_line();
                self.push_text(&text);
                self.end_line();
            }
            return;
        }
        match tag.name.as_str() {
            "template" | "select" | "desc" | "metadata" if !tag.self_closing => self.hidden += 1,
            // Older books do not end what their heads hide.
            "body" => {
                self.end_line();
                self.hidden = 0;
            }
            "svg" if !tag.self_closing => self.drawings += 1,
            "br" | "hr" => self.break_line(),
            "img" if self.hidden == 0 => {
                self.alternative_text(tag);
                let address = tag.find_attribute("src").filter(|address| address.len() <= ADDRESS_MAX_BYTES);
                let number =
                    tag.find_attribute("recindex").filter(|number| number.len() <= ADDRESS_MAX_BYTES);
                if let Some(number) = number {
                    self.writer.add_image(format!("{NUMBERED}{number}"));
                } else if let Some(address) = address {
                    self.writer.add_image(address.into_owned());
                }
            }
            "li" => {
                self.break_line();
                self.line.push_str("- ");
            }
            "td" | "th" if !self.line.trim().is_empty() => self.line.push('\t'),
            "tr" => self.end_line(),
            "table" => {
                self.end_line();
                self.tables += 1;
            }
            name if is_heading(name) => {
                self.end_line();
                self.in_heading = true;
            }
            "pre" => {
                self.end_line();
                self.in_preformatted = true;
            }
            name if is_block(name) => self.break_line(),
            _ => {}
        }
    }

    fn end_element(&mut self, name: &str) {
        if let Some(equation) = &mut self.equation {
            if let Some(written) = equation.end_element(name) {
                self.line.push_str(&written);
                self.equation = None;
            }
            return;
        }
        if self.copies > 0 {
            self.copies -= u32::from(name == "span");
            return;
        }
        match name {
            "template" | "select" | "desc" | "metadata" => self.hidden = self.hidden.saturating_sub(1),
            "svg" => self.drawings = self.drawings.saturating_sub(1),
            "text" if self.drawings > 0 => self.break_line(),
            "tr" => self.end_line(),
            "li" if self.tables == 0 => self.end_line(),
            "table" => {
                self.end_line();
                self.tables = self.tables.saturating_sub(1);
            }
            name if is_heading(name) => {
                let line = std::mem::take(&mut self.line);
                self.writer.add_heading(&line);
                self.in_heading = false;
            }
            "pre" => {
                self.end_line();
                self.in_preformatted = false;
            }
            name if is_block(name) => self.break_line(),
            _ => {}
        }
    }

    /// Ends the line, unless it is within a table row or a heading.
    fn break_line(&mut self) {
        if self.line.trim() == "-" {
            // The paragraph of a list item continues after its bullet.
        } else if self.tables > 0 || self.in_heading {
            self.line.push(' ');
        } else {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        // A bullet alone is not text.
        if line.trim() != "-" {
            self.writer.add_line(&line);
        }
    }
}

fn is_heading(name: &str) -> bool {
    matches!(name, "h1" | "h2" | "h3" | "h4" | "h5" | "h6")
}

fn is_block(name: &str) -> bool {
    matches!(
        name,
        "p" | "div"
            | "section"
            | "article"
            | "header"
            | "footer"
            | "main"
            | "aside"
            | "nav"
            | "ul"
            | "ol"
            | "li"
            | "dl"
            | "dt"
            | "dd"
            | "blockquote"
            | "figure"
            | "figcaption"
            | "address"
            | "form"
            | "fieldset"
            | "body"
            | "head"
            | "caption"
            | "thead"
            | "tbody"
            | "tfoot"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html_text(html: &str) -> String {
        let extracted = extract_html(html.as_bytes());
        extracted.segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_a_reader_sees_is_kept() {
        let page = "<html><head><title>Ceník &amp; sazby</title><style>p{}</style>\
            <script>var x = '<p>no</p>';</script></head><body><h1>Nájem</h1><p>Výše\n nájmu<br>činí 5&nbsp;000 Kč.</p>\
            <ul><li>voda</li><li><p>teplo</p></li></ul><table><tr><th>Byt</th><th>Cena</th></tr>\
            <tr><td><p>A</p></td><td>1</td></tr></table></body>";
        assert_eq!(
            html_text(page),
            "Ceník & sazby\nNájem\nVýše nájmu\nčiní 5 000 Kč.\n- voda\n- teplo\nByt\tCena\nA\t1"
        );
    }

    #[test]
    fn headings_are_context() {
        let extracted = extract_html(b"<h2>One</h2><p>first<h2>Two</h2><p>second");
        let headings: Vec<_> = extracted.segments.iter().map(|segment| segment.heading.as_deref()).collect();
        assert_eq!(headings, [Some("One"), Some("Two")]);
        assert_eq!(extracted.segments[1].lines, Some((3, 4)));
    }

    #[test]
    fn extract_html_deep_unclosed_elements() {
        assert_eq!(html_text(&format!("{}x", "<div>".repeat(200_000))), "x");
        assert_eq!(html_text("<p>a<script>b"), "a");
    }

    #[test]
    fn extract_html_attributes_linear_time() {
        let attributes: String = (0..100_000).map(|number| format!(" a{number}=b")).collect();
        let begun = std::time::Instant::now();
        assert_eq!(html_text(&format!("<p>a<i{attributes}>b</i{attributes}>c")), "abc");
        // Milliseconds; a tokenizer that compares each attribute with all others takes minutes.
        assert!(begun.elapsed().as_secs() < 10);
    }

    #[test]
    fn the_pages_own_encoding_counts() {
        let mut page = b"<meta charset=\"iso-8859-2\"><p>".to_vec();
        page.extend_from_slice(b"\xb9kola");
        assert_eq!(extract_html(&page).segments[0].text, "škola");
    }
}
