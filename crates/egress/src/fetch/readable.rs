//! Extracts the readable content of a page: its title, its text in blocks, and its links.
//!
//! A page marks its main content (`main`, `article`) and the parts around it (`nav`, `aside`, `footer` and so on).
//! Without such marks, blocks that consist mostly of links and elements named like menus or banners are treated as
//! surroundings. Text that is left out by mistake is lost, and text that is left in costs little; therefore it
//! stays when in doubt.

use std::collections::HashSet;

use html::{HtmlToken, HtmlTokens, Tag};

use super::PageLink;
use crate::{WebUrl, text};

/// The maximum number of links per page.
pub const LINKS_MAX: usize = 100;
/// The longest text of a link, in bytes.
pub const LINK_TEXT_MAX_BYTES: usize = 200;
/// The maximum depth of the element stack; deeper elements are treated like their ancestors.
const DEPTH_MAX: usize = 128;
/// The maximum text of a page, in bytes.
const TEXT_MAX_BYTES: usize = 4 * 1024 * 1024;
/// The maximum number of candidate links.
const LINKS_NOTED_MAX: usize = 5000;
/// The minimum number of letters in the marked main content.
const MATTER_MIN_CHARS: usize = 200;
/// The main content must also hold at least one in this many letters of the page.
const MATTER_MIN_SHARE: usize = 5;
/// A block of links longer than this may be text, in characters.
const MENU_MAX_CHARS: usize = 300;
/// Words in classes and ids that mark surroundings.
const AROUND: &[&str] = &[
    "ad",
    "ads",
    "advert",
    "banner",
    "breadcrumb",
    "breadcrumbs",
    "cookie",
    "cookies",
    "consent",
    "footer",
    "menu",
    "modal",
    "nav",
    "navbar",
    "navigation",
    "newsletter",
    "pagination",
    "popup",
    "promo",
    "related",
    "share",
    "sharing",
    "sidebar",
    "skip",
    "social",
    "subscribe",
    "toolbar",
];

/// A block of text: a paragraph, a heading, a list item, a table row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PageBlock {
    /// The text; headings and items begin with a Markdown mark.
    pub(super) text: String,
    /// True for a heading.
    pub(super) is_heading: bool,
}

/// The content of a page.
#[derive(Debug, Default)]
pub(super) struct Readable {
    pub(super) title: String,
    pub(super) blocks: Vec<PageBlock>,
    base: Option<String>,
    links: Vec<(String, String)>,
}

impl Readable {
    /// Returns the links of the page, without duplicates.
    pub(super) fn resolve_links(&self, page: &WebUrl) -> Vec<PageLink> {
        let base = self.base.as_ref().and_then(|base| page.resolve_reference(base));
        let base = base.as_ref().unwrap_or(page);
        let mut seen = HashSet::from([page.clone()]);
        let links = self.links.iter().filter_map(|(target, text)| {
            let url = base.resolve_reference(target)?;
            seen.insert(url.clone()).then(|| PageLink { url, text: text.clone() })
        });
        links.take(LINKS_MAX).collect()
    }
}

/// Splits plain text into paragraphs.
pub(super) fn read_plain_text(text: &str) -> Readable {
    let lines = text.lines().map(|line| clean_line(line, true)).filter(|line| !line.trim().is_empty());
    let blocks = lines.map(|text| PageBlock { text, is_heading: false }).collect();
    Readable { blocks, ..Readable::default() }
}

pub(super) fn read_page(page: &str) -> Readable {
    let mut reader = PageReader::default();
    for token in HtmlTokens::new(page) {
        if reader.kept >= TEXT_MAX_BYTES {
            break;
        }
        match token {
            HtmlToken::Text(text) => reader.add_text(&text),
            HtmlToken::Start(tag) => reader.start_element(&tag),
            HtmlToken::End(name) => reader.end_element(&name),
        }
    }
    reader.end_link();
    reader.end_block();
    reader.into_readable()
}

/// The part of the page that an element belongs to, least relevant first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Zone {
    Hidden,
    /// Surroundings by the kind of element.
    Around,
    /// Surroundings by class or id.
    Named,
    Page,
    /// The marked main content.
    Matter,
}

struct OpenPageElement {
    name: String,
    zone: Zone,
}

struct Noted {
    block: PageBlock,
    zone: Zone,
    chars: usize,
    link_chars: usize,
}

#[derive(Default)]
struct PageReader {
    stack: Vec<OpenPageElement>,
    /// The number of open elements beyond the maximum depth.
    deeper: usize,
    blocks: Vec<Noted>,
    kept: usize,
    line: String,
    link_chars: usize,
    mark: String,
    in_heading: bool,
    in_row: bool,
    preformatted: bool,
    link: Option<(String, String)>,
    links: Vec<(String, String, Zone)>,
    title: String,
    named_title: String,
    base: Option<String>,
}

impl PageReader {
    fn current_zone(&self) -> Zone {
        self.stack.last().map_or(Zone::Page, |element| element.zone)
    }

    fn add_text(&mut self, text: &str) {
        if self.current_zone() == Zone::Hidden {
            return;
        }
        if self.preformatted {
            self.line.push_str(text);
        } else {
            // Line breaks and tabs of the source are spaces.
            self.line.extend(text.chars().map(|letter| if letter.is_whitespace() { ' ' } else { letter }));
        }
        if let Some((_, link_text)) = &mut self.link {
            self.link_chars += text.chars().filter(|letter| !letter.is_whitespace()).count();
            if link_text.len() < LINK_TEXT_MAX_BYTES {
                link_text.push_str(text::cut_bytes(text, LINK_TEXT_MAX_BYTES));
            }
        }
    }

    fn start_element(&mut self, tag: &Tag<'_>) {
        let name = tag.name.as_str();
        match name {
            "title" if self.title.is_empty() && !self.stack.iter().any(|element| element.name == "svg") => {
                self.title = text::single_line(&tag.raw_text().unwrap_or_default());
            }
            "meta" if tag.find_attribute("property").as_deref() == Some("og:title") => {
                self.named_title = text::single_line(&tag.find_attribute("content").unwrap_or_default());
            }
            "base" if self.base.is_none() => {
                self.base = tag.find_attribute("href").map(|base| base.into_owned())
            }
            "a" => self.start_link(tag),
            "br" if !self.in_row => self.line.push('\n'),
            "br" | "wbr" => self.line.push(' '),
            "img" => {
                // The alternative text represents an image.
                let alt = tag.find_attribute("alt").unwrap_or_default();
                self.add_text(text::cut_bytes(&alt, LINK_TEXT_MAX_BYTES));
            }
            _ => {}
        }
        self.close_implied(name);
        self.begin_block(name);
        self.push_element(tag);
    }

    /// Ends the previous block if the element begins a new one.
    fn begin_block(&mut self, name: &str) {
        match name {
            "td" | "th" if self.in_row && !self.line.trim().is_empty() => self.line.push_str(" | "),
            "tr" => {
                self.end_block();
                self.in_row = true;
            }
            "table" => {
                self.end_block();
                self.in_row = false;
            }
            "li" if !self.in_row => {
                self.end_block();
                self.mark = "- ".to_owned();
            }
            "pre" => {
                self.end_block();
                self.preformatted = true;
            }
            _ if heading_level(name).is_some() && !self.in_row => {
                self.end_block();
                self.mark = format!("{} ", "#".repeat(heading_level(name).unwrap_or(1)));
                self.in_heading = true;
            }
            _ if is_block(name) => self.break_block(),
            _ => {}
        }
    }

    fn end_element(&mut self, name: &str) {
        if name == "a" {
            self.end_link();
        }
        match name {
            "tr" | "table" => {
                self.end_block();
                self.in_row = false;
            }
            "pre" => {
                self.end_block();
                self.preformatted = false;
            }
            _ if heading_level(name).is_some() && !self.in_row => self.end_block(),
            _ if is_block(name) => self.break_block(),
            _ => {}
        }
        if self.deeper > 0 {
            self.deeper -= 1;
        } else if let Some(at) = self.stack.iter().rposition(|element| element.name == name) {
            self.stack.truncate(at);
        }
    }

    /// Closes elements that end implicitly where the next one of their kind begins.
    fn close_implied(&mut self, name: &str) {
        let last = self.stack.last().map_or("", |element| element.name.as_str());
        let same = matches!(name, "li" | "td" | "th" | "tr" | "dt" | "dd" | "option" | "p") && last == name;
        if same || (last == "p" && is_block(name)) {
            self.stack.pop();
        }
    }

    fn push_element(&mut self, tag: &Tag<'_>) {
        let name = tag.name.as_str();
        let outer = self.current_zone();
        let zone = element_zone(tag, outer);
        // Inline elements count only if they are hidden or within hidden ones, to detect where those end.
        let counts = is_block(name) || zone != outer || outer == Zone::Hidden;
        if !counts || is_void(name) || tag.raw_text().is_some() {
            return;
        }
        if self.stack.len() == DEPTH_MAX {
            self.deeper += 1;
        } else {
            self.end_for(zone, outer);
            self.stack.push(OpenPageElement { name: tag.name.clone(), zone });
        }
    }

    /// Texts of different zones do not share a block.
    fn end_for(&mut self, zone: Zone, outer: Zone) {
        if zone != outer && zone != Zone::Hidden && !self.in_row {
            let (mark, in_heading) = (std::mem::take(&mut self.mark), self.in_heading);
            self.end_block();
            (self.mark, self.in_heading) = (mark, in_heading);
        }
    }

    fn start_link(&mut self, tag: &Tag<'_>) {
        self.end_link();
        let target =
            tag.find_attribute("href").filter(|target| !target.is_empty() && !target.starts_with('#'));
        self.link = target.map(|target| (target.into_owned(), String::new()));
    }

    fn end_link(&mut self) {
        let Some((target, link_text)) = self.link.take() else { return };
        if self.links.len() < LINKS_NOTED_MAX && self.current_zone() != Zone::Hidden {
            let link_text = text::single_line(&link_text);
            let link_text = text::cut_bytes(&link_text, LINK_TEXT_MAX_BYTES).to_owned();
            self.links.push((target, link_text, self.current_zone()));
        }
    }

    /// Ends the block, unless it is within a table row or a heading.
    fn break_block(&mut self) {
        if self.in_row || self.in_heading {
            self.line.push(' ');
        } else if !self.line.trim().is_empty() {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        let line = std::mem::take(&mut self.line);
        let lines = line.split('\n').map(|line| clean_line(line, self.preformatted));
        let text = lines.filter(|line| !line.trim().is_empty()).collect::<Vec<_>>().join("\n");
        let (link_chars, is_heading) = (self.link_chars, self.in_heading);
        self.link_chars = 0;
        self.in_heading = false;
        let mark = std::mem::take(&mut self.mark);
        if text.is_empty() {
            return;
        }
        let chars = text.chars().filter(|letter| !letter.is_whitespace()).count();
        let text = format!("{mark}{text}");
        self.kept += text.len();
        self.blocks.push(Noted {
            block: PageBlock { text, is_heading },
            zone: self.current_zone(),
            chars,
            link_chars,
        });
    }

    /// Selects the zones to return.
    fn into_readable(self) -> Readable {
        let chars = |least: Zone| -> usize {
            self.blocks
                .iter()
                .filter(|noted| noted.zone >= least)
                .map(|noted| noted.chars - noted.link_chars.min(noted.chars))
                .sum()
        };
        let matter = chars(Zone::Matter);
        let least = if matter >= MATTER_MIN_CHARS && matter * MATTER_MIN_SHARE >= chars(Zone::Page) {
            Zone::Matter
        } else {
            Zone::Page
        };
        let wanted = |noted: &Noted| noted.zone >= least && (least == Zone::Matter || !noted.is_menu());
        let mut blocks: Vec<PageBlock> =
            self.blocks.iter().filter(|noted| wanted(noted)).map(|noted| noted.block.clone()).collect();
        if blocks.iter().all(|block| block.is_heading) {
            // A page that consists only of links is returned as it is.
            blocks = self.blocks.into_iter().map(|noted| noted.block).collect();
        }
        let (inside, outside): (Vec<_>, Vec<_>) =
            self.links.into_iter().partition(|(.., zone)| *zone >= least);
        let links =
            inside.into_iter().chain(outside).map(|(target, link_text, _)| (target, link_text)).collect();
        let title = if self.title.is_empty() { self.named_title } else { self.title };
        Readable { title, blocks, base: self.base, links }
    }
}

impl Noted {
    /// Returns true for short blocks that consist mostly of links.
    fn is_menu(&self) -> bool {
        !self.block.is_heading && self.link_chars * 2 > self.chars && self.chars < MENU_MAX_CHARS
    }
}

/// Returns the zone of an element within another zone.
fn element_zone(tag: &Tag<'_>, outer: Zone) -> Zone {
    let attribute = |name: &str| tag.find_attribute(name).unwrap_or_default();
    let hidden = outer == Zone::Hidden
        || tag.find_attribute("hidden").is_some()
        || attribute("aria-hidden").eq_ignore_ascii_case("true")
        || matches!(
            tag.name.as_str(),
            "template" | "svg" | "select" | "button" | "noscript" | "dialog" | "object" | "canvas"
        )
        || tag.find_attribute("style").is_some_and(|style| is_hiding_style(&style));
    if hidden {
        return Zone::Hidden;
    }
    let role = attribute("role");
    let around = match tag.name.as_str() {
        "nav" | "aside" | "menu" => true,
        // Within an article they belong to it.
        "header" | "footer" => outer != Zone::Matter,
        _ => matches!(
            &*role,
            "navigation" | "banner" | "contentinfo" | "complementary" | "search" | "menu" | "menubar"
        ),
    };
    if around || outer == Zone::Around {
        return Zone::Around;
    }
    if matches!(tag.name.as_str(), "main" | "article") || role == "main" {
        return Zone::Matter;
    }
    if outer == Zone::Named || (is_block(&tag.name) && !is_whole(&tag.name) && is_named_around(tag)) {
        return Zone::Named;
    }
    outer
}

/// Returns true if an inline style hides the element.
fn is_hiding_style(style: &str) -> bool {
    let style = style.to_ascii_lowercase();
    style.split(';').filter_map(|rule| rule.split_once(':')).any(|(name, value)| {
        let value = value.split('!').next().unwrap_or("").trim();
        match name.trim() {
            "display" => value == "none",
            "visibility" => value == "hidden" || value == "collapse",
            "opacity" | "font-size" => value.trim_start_matches(['0', '.']).trim_end_matches("px").is_empty(),
            _ => false,
        }
    })
}

fn is_named_around(tag: &Tag<'_>) -> bool {
    ["class", "id"].iter().filter_map(|name| tag.find_attribute(name)).any(|names| {
        let words = names.split(|letter: char| !letter.is_ascii_alphanumeric());
        words.into_iter().any(|word| AROUND.contains(&word.to_ascii_lowercase().as_str()))
    })
}

/// Returns true for elements that contain the whole page, regardless of their class.
fn is_whole(name: &str) -> bool {
    matches!(name, "html" | "body" | "main" | "article")
}

fn heading_level(name: &str) -> Option<usize> {
    let level = name.strip_prefix('h').filter(|level| level.len() == 1)?.parse().ok()?;
    (1..=6).contains(&level).then_some(level)
}

fn is_block(name: &str) -> bool {
    heading_level(name).is_some()
        || matches!(
            name,
            "html"
                | "body"
                | "p"
                | "div"
                | "section"
                | "article"
                | "header"
                | "footer"
                | "main"
                | "aside"
                | "nav"
                | "menu"
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
                | "head"
                | "caption"
                | "table"
                | "thead"
                | "tbody"
                | "tfoot"
                | "tr"
                | "td"
                | "th"
                | "pre"
                | "hr"
                | "details"
                | "summary"
                | "center"
        )
}

fn is_void(name: &str) -> bool {
    matches!(
        name,
        "area"
            | "base"
            | "br"
            | "col"
            | "embed"
            | "hr"
            | "img"
            | "input"
            | "link"
            | "meta"
            | "param"
            | "source"
            | "track"
            | "wbr"
    )
}

/// Removes invisible characters from a line; preformatted lines keep their spaces.
fn clean_line(line: &str, keeps_blanks: bool) -> String {
    if !keeps_blanks {
        return text::single_line(line);
    }
    let letters = line.chars().map(|letter| if letter == '\t' { ' ' } else { letter });
    letters.filter(|letter| !text::is_hidden(*letter)).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
#[path = "readable_tests.rs"]
mod tests;
