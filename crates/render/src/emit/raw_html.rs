//! HTML within Markdown documents, as in the README of a repository: known elements without their attributes, and the text of
//! all others. Answers have fewer elements, and the rest of their HTML is shown as written.
//!
//! An element that is opened within a block of Markdown is closed in it. An element that is opened between blocks, such as
//! `<details>`, contains the blocks up to its end tag, or all following blocks. So the output is well nested for any
//! document, and its depth is bounded.

use html::{HtmlToken, HtmlTokens, Tag};

use super::{HtmlWriter, RawHtml};
use crate::known_form::LINK_REL;
use crate::link;

/// An element that HTML opened, and that is still open.
pub(super) struct OpenElement {
    element: HtmlElement,
    /// The number of elements of Markdown around it.
    depth: usize,
    /// True if it represents text without an element.
    is_implied: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ElementKind {
    /// Within a line of text.
    Inline,
    /// Holds text, but no blocks.
    Line,
    Block,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct HtmlElement {
    kind: ElementKind,
    name: &'static str,
    start: &'static str,
    end: &'static str,
}

macro_rules! element {
    ($kind:ident, $name:literal) => {
        HtmlElement {
            kind: ElementKind::$kind,
            name: $name,
            start: concat!("<", $name, ">"),
            end: concat!("</", $name, ">"),
        }
    };
}

const PARAGRAPH: HtmlElement = element!(Line, "p");
const SUMMARY: HtmlElement = element!(Line, "summary");
const DETAILS: HtmlElement = element!(Block, "details");
const LINK: HtmlElement = HtmlElement { kind: ElementKind::Inline, name: "a", start: "", end: "</a>" };

const ELEMENTS: [HtmlElement; 27] = [
    PARAGRAPH,
    SUMMARY,
    DETAILS,
    element!(Inline, "code"),
    element!(Inline, "del"),
    element!(Inline, "em"),
    element!(Inline, "kbd"),
    element!(Inline, "strong"),
    element!(Inline, "sub"),
    element!(Inline, "sup"),
    element!(Line, "h1"),
    element!(Line, "h2"),
    element!(Line, "h3"),
    element!(Line, "h4"),
    element!(Line, "h5"),
    element!(Line, "h6"),
    element!(Line, "pre"),
    element!(Block, "blockquote"),
    element!(Block, "li"),
    element!(Block, "ol"),
    element!(Block, "table"),
    element!(Block, "tbody"),
    element!(Block, "td"),
    element!(Block, "th"),
    element!(Block, "thead"),
    element!(Block, "tr"),
    element!(Block, "ul"),
];

/// Returns the shown element for one of a document; `None` if only its content is shown.
fn find_element(name: &str) -> Option<HtmlElement> {
    let shown = match name {
        "b" => "strong",
        "i" | "cite" | "dfn" | "var" => "em",
        "s" | "strike" => "del",
        "tt" | "samp" => "code",
        other => other,
    };
    ELEMENTS.into_iter().find(|element| element.name == shown)
}

/// The elements that are read in answers.
const OF_ANSWERS: [&str; 11] =
    ["b", "br", "code", "details", "em", "i", "kbd", "strong", "sub", "summary", "sup"];

/// Returns true if answers may contain all tags of a piece of HTML.
fn is_of_answers(html: &str) -> bool {
    let is_known = |name: &str| OF_ANSWERS.contains(&name);
    HtmlTokens::new(html).all(|token| match token {
        HtmlToken::Text(_) => true,
        HtmlToken::Start(tag) => is_known(&tag.name),
        HtmlToken::End(name) => is_known(&name),
    })
}

/// Returns true for elements that are blocks, but are not shown: the text in them is separate.
fn is_plain_block(name: &str) -> bool {
    const NAMES: [&str; 17] = [
        "address",
        "article",
        "aside",
        "center",
        "dd",
        "div",
        "dl",
        "dt",
        "figcaption",
        "figure",
        "footer",
        "form",
        "header",
        "main",
        "nav",
        "section",
        "tfoot",
    ];
    NAMES.contains(&name)
}

/// Returns the elements that may enclose an element of a table, one of which must; `None` for other elements.
fn table_parents(name: &str) -> Option<&'static [&'static str]> {
    match name {
        "tbody" | "thead" => Some(&["table"]),
        "tr" => Some(&["table", "tbody", "thead"]),
        "td" | "th" => Some(&["tr"]),
        _ => None,
    }
}

impl HtmlWriter<'_> {
    /// Returns true if HTML between blocks is read rather than shown.
    pub(super) fn reads_block(&self, html: &str) -> bool {
        // Comments and instructions are not tokens.
        let has_tags_only = || !html.contains("<!") && !html.contains("<?");
        self.raw_html == RawHtml::Read || has_tags_only() && is_of_answers(html)
    }

    /// Returns true if a tag within a line of text is read rather than shown.
    pub(super) fn reads_inline(&self, tag: &str) -> bool {
        let holds_blocks =
            |name: &str| find_element(name).is_some_and(|element| element.kind != ElementKind::Inline);
        self.raw_html == RawHtml::Read
            || match HtmlTokens::new(tag).next() {
                Some(HtmlToken::Start(Tag { name, .. }) | HtmlToken::End(name)) => {
                    OF_ANSWERS.contains(&&*name) && !holds_blocks(&name)
                }
                _ => false,
            }
    }

    /// Writes HTML within a line of text: a single tag.
    pub(super) fn inline_html(&mut self, html: &str) {
        match HtmlTokens::new(html).next() {
            Some(HtmlToken::Start(tag)) => match find_element(&tag.name) {
                Some(element) if element.kind == ElementKind::Inline => self.open_element(element, false),
                _ => self.empty_element(&tag),
            },
            Some(HtmlToken::End(name)) => {
                if let Some(element) =
                    find_element(&name).filter(|element| element.kind == ElementKind::Inline)
                {
                    self.close_element(element.name, &[]);
                } else if name == LINK.name {
                    self.close_element(LINK.name, &[]);
                }
            }
            Some(HtmlToken::Text(text)) => self.write_escaped(&text),
            None => {}
        }
    }

    /// Writes HTML between blocks of text.
    pub(super) fn html_block(&mut self, html: &str) {
        for token in HtmlTokens::new(html) {
            match token {
                HtmlToken::Text(text) => self.html_text(&text),
                HtmlToken::Start(tag) => match find_element(&tag.name) {
                    Some(element) => self.start_element(element),
                    None if is_plain_block(&tag.name) => self.close_lines(),
                    None if tag.name == "hr" => {
                        self.close_lines();
                        self.leave_table();
                        self.out.push_str("<hr>");
                    }
                    None => {
                        if matches!(&*tag.name, "a" | "br" | "img") {
                            self.imply_paragraph();
                        }
                        self.empty_element(&tag);
                    }
                },
                HtmlToken::End(name) => match find_element(&name) {
                    Some(element) => self.close_element(element.name, container_names(element.name)),
                    None if is_plain_block(&name) => self.close_lines(),
                    None if name == LINK.name => self.close_element(LINK.name, &[]),
                    None => {}
                },
            }
        }
        // Following Markdown is separate.
        if let Some(at) = self.html.iter().rposition(|open| open.is_implied)
            && self.html[at].depth == self.depth()
        {
            self.close_from(at);
        }
    }

    /// Closes what cannot hold a block of Markdown that begins here.
    pub(super) fn make_room_for_block(&mut self) {
        self.close_lines();
        self.leave_table();
    }

    /// Closes elements that hold no blocks.
    fn close_lines(&mut self) {
        let depth = self.depth();
        let holds = |open: &OpenElement| open.depth < depth || open.element.kind == ElementKind::Block;
        let first = self.html.iter().rposition(holds).map_or(0, |at| at + 1);
        self.close_from(first);
    }

    /// Closes the elements that were opened deeper than at this number of Markdown elements.
    pub(super) fn close_deeper(&mut self, depth: usize) {
        let first = self.html.iter().position(|open| open.depth > depth).unwrap_or(self.html.len());
        self.close_from(first);
    }

    fn html_text(&mut self, text: &str) {
        let is_preformatted = self.html.iter().any(|open| open.element.name == "pre");
        if !is_preformatted && text.trim().is_empty() {
            self.out.push('\n');
            return;
        }
        self.imply_paragraph();
        self.write_escaped(text);
    }

    /// Returns the innermost element that was opened at this place of the document.
    fn innermost_element(&self) -> Option<HtmlElement> {
        let depth = self.depth();
        self.html.last().filter(|open| open.depth == depth).map(|open| open.element)
    }

    /// Ends a table unless a cell is open: a parser would move content there to before the table.
    fn leave_table(&mut self) {
        if matches!(
            self.innermost_element().map(|element| element.name),
            Some("table" | "tbody" | "thead" | "tr")
        ) {
            self.close_element("table", &[]);
        }
    }

    /// Opens a paragraph for text without an element.
    fn imply_paragraph(&mut self) {
        self.leave_table();
        let holds_text = |element: HtmlElement| {
            element.kind != ElementKind::Block || matches!(element.name, "li" | "td" | "th")
        };
        if !self.innermost_element().is_some_and(holds_text) {
            self.open_element(PARAGRAPH, true);
        }
    }

    fn start_element(&mut self, element: HtmlElement) {
        if element.kind == ElementKind::Inline {
            self.imply_paragraph();
            self.open_element(element, false);
            return;
        }
        self.close_lines();
        // A further item, row or cell ends the one before.
        let siblings: &[&str] = match element.name {
            "li" => &["li"],
            "tr" => &["tr"],
            "td" | "th" => &["td", "th"],
            "tbody" | "thead" => &["tbody", "thead"],
            _ => &[],
        };
        siblings.iter().for_each(|name| self.close_element(name, container_names(element.name)));
        let around = self.innermost_element();
        match table_parents(element.name) {
            Some(parents) if !around.is_some_and(|around| parents.contains(&around.name)) => return,
            Some(_) => {}
            None => self.leave_table(),
        }
        // A summary outside of its element is a line of text.
        let element = if element == SUMMARY && around != Some(DETAILS) { PARAGRAPH } else { element };
        self.open_element(element, false);
    }

    /// Writes an element without content: a break, or the description of an image.
    fn empty_element(&mut self, tag: &Tag<'_>) {
        match &*tag.name {
            "br" => self.out.push_str("<br>"),
            "img" => self.write_image(tag),
            "a" => {
                let address = tag.find_attribute("href").and_then(|href| link::allowed_address(&href));
                if let Some(address) = address.filter(|_| self.links == 0 && self.has_room()) {
                    self.link_start(&address);
                    self.html.push(OpenElement { element: LINK, depth: self.depth(), is_implied: false });
                }
            }
            _ => {}
        }
    }

    /// Writes the description of an image, or else its address, as a link to it.
    fn write_image(&mut self, tag: &Tag<'_>) {
        let source = tag.find_attribute("src").unwrap_or_default();
        let description = tag.find_attribute("alt").filter(|text| !text.trim().is_empty());
        let description = description.unwrap_or_else(|| source.clone());
        match link::allowed_address(&source).filter(|_| self.links == 0) {
            Some(address) => {
                self.link_start(&address);
                self.write_escaped(&description);
                self.out.push_str(LINK.end);
                self.links -= 1;
            }
            None => self.write_escaped(&description),
        }
    }

    fn link_start(&mut self, address: &str) {
        self.links += 1;
        self.out.push_str("<a href=\"");
        self.write_escaped(address);
        self.out.push_str(&format!("\" rel=\"{LINK_REL}\">"));
    }

    fn open_element(&mut self, element: HtmlElement, is_implied: bool) {
        if !self.has_room() {
            return;
        }
        self.out.push_str(element.start);
        self.html.push(OpenElement { element, depth: self.depth(), is_implied });
    }

    /// Closes the innermost element of this name and the elements in it, unless one of `within` encloses it.
    fn close_element(&mut self, name: &str, within: &[&str]) {
        let depth = self.depth();
        for at in (0..self.html.len()).rev() {
            let open = &self.html[at];
            if open.depth < depth || within.contains(&open.element.name) && open.element.name != name {
                return;
            }
            if open.element.name == name {
                self.close_from(at);
                return;
            }
        }
    }

    fn close_from(&mut self, at: usize) {
        while self.html.len() > at {
            let Some(open) = self.html.pop() else { return };
            let written = self.out.trim_end().len();
            if open.element.kind == ElementKind::Line && self.out[..written].ends_with(open.element.start) {
                // An empty line would waste space.
                self.out.truncate(written - open.element.start.len());
                continue;
            }
            self.out.push_str(open.element.end);
            self.links -= usize::from(open.element == LINK);
        }
    }
}

/// Returns the elements that an end tag, or a further item, does not reach beyond.
fn container_names(name: &str) -> &'static [&'static str] {
    match name {
        "li" => &["ul", "ol"],
        "td" | "th" => &["tr", "table"],
        "tr" | "tbody" | "thead" => &["table"],
        _ => &[],
    }
}
