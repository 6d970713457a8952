//! Writes HTML from parsed Markdown: known elements only, everything else escaped.

mod raw_html;

use std::sync::LazyLock;

use comrak::arena_tree::NodeEdge;
use comrak::nodes::{ListType, Node, NodeLink, NodeValue, TableAlignment};
use comrak::{Arena, Options, parse_document};

use crate::escape::{MARK_CLOSE, MARK_OPEN, escape_html};
use crate::known_form::LINK_REL;
use crate::sanitize::language_class;
use crate::{CitationSources, link};

use raw_html::OpenElement;

/// The maximum depth of nested elements; deeper content is written without its elements.
const NESTING_MAX: usize = 64;

static OPTIONS: LazyLock<Options<'static>> = LazyLock::new(|| {
    let mut options = Options::default();
    options.extension.strikethrough = true;
    // A single tilde strikes nothing through.
    options.extension.subscript = true;
    options.extension.table = true;
    options.extension.autolink = true;
    options.extension.tasklist = true;
    options
});

/// The treatment of HTML within Markdown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RawHtml {
    /// Shown as text, except a few elements, as in answers.
    Shown,
    /// Read, as in documents.
    Read,
}

/// Emits the HTML of prepared Markdown.
pub(crate) fn emit_html(prepared: &str, sources: &dyn CitationSources, raw_html: RawHtml) -> String {
    emit_parsed(prepared, sources, raw_html, |_| ())
}

/// Emits the HTML of prepared Markdown, whose parsed form `inspect` sees.
pub(crate) fn emit_parsed(
    prepared: &str,
    sources: &dyn CitationSources,
    raw_html: RawHtml,
    inspect: impl FnOnce(Node<'_>),
) -> String {
    let arena = Arena::new();
    let root = parse_document(&arena, prepared, &OPTIONS);
    inspect(root);
    let mut writer = HtmlWriter {
        sources,
        out: String::with_capacity(prepared.len() * 2),
        ends: Vec::new(),
        links: 0,
        images: Vec::new(),
        columns: Vec::new(),
        column: 0,
        raw_html,
        html: Vec::new(),
    };
    for edge in root.traverse() {
        match edge {
            NodeEdge::Start(node) => writer.start_node(node),
            NodeEdge::End(node) => writer.end_node(node),
        }
    }
    writer.out
}

struct HtmlWriter<'s> {
    sources: &'s dyn CitationSources,
    out: String,
    /// The closing tag of each open element.
    ends: Vec<&'static str>,
    /// The number of open links; links do not nest.
    links: usize,
    /// The start of each open image's text in `out`.
    images: Vec<usize>,
    /// The alignments of the current table, and the column.
    columns: Vec<TableAlignment>,
    column: usize,
    raw_html: RawHtml,
    /// The elements that HTML opened, the innermost last.
    html: Vec<OpenElement>,
}

impl HtmlWriter<'_> {
    fn start_node(&mut self, node: Node<'_>) {
        let data = node.data();
        if !self.html.is_empty() && data.value.block() && !matches!(data.value, NodeValue::HtmlBlock(_)) {
            self.make_room_for_block();
        }
        let end = match &data.value {
            NodeValue::Paragraph if in_tight_list(node) => "",
            NodeValue::Paragraph => self.open_tag("<p>", "</p>"),
            NodeValue::BlockQuote => self.open_tag("<blockquote>", "</blockquote>"),
            NodeValue::Heading(heading) => match heading.level {
                1 => self.open_tag("<h1>", "</h1>"),
                2 => self.open_tag("<h2>", "</h2>"),
                3 => self.open_tag("<h3>", "</h3>"),
                4 => self.open_tag("<h4>", "</h4>"),
                5 => self.open_tag("<h5>", "</h5>"),
                _ => self.open_tag("<h6>", "</h6>"),
            },
            NodeValue::List(list) => match list.list_type {
                ListType::Bullet => self.open_tag("<ul>", "</ul>"),
                ListType::Ordered if list.start == 1 => self.open_tag("<ol>", "</ol>"),
                ListType::Ordered => self.open_tag(&format!("<ol start=\"{}\">", list.start), "</ol>"),
            },
            NodeValue::Item(_) => self.open_tag("<li>", "</li>"),
            NodeValue::TaskItem(task) => {
                let end = self.open_tag("<li>", "</li>");
                self.out.push_str(if task.symbol.is_some() { "☑ " } else { "☐ " });
                end
            }
            NodeValue::CodeBlock(code) => {
                let language = code.info.split_whitespace().next().and_then(language_class);
                let start = language.map_or_else(
                    || "<pre><code>".to_owned(),
                    |class| format!("<pre><code class=\"{class}\">"),
                );
                let end = self.open_tag(&start, "</code></pre>");
                self.write_escaped(&code.literal);
                end
            }
            NodeValue::HtmlBlock(html) if self.reads_block(&html.literal) => {
                self.html_block(&html.literal);
                ""
            }
            NodeValue::HtmlBlock(html) => {
                let shown = without_comments(&html.literal);
                if shown.is_empty() {
                    ""
                } else {
                    let end = self.open_tag("<p>", "</p>");
                    self.write_escaped(&shown);
                    end
                }
            }
            NodeValue::ThematicBreak => self.open_tag("<hr>", ""),
            NodeValue::Table(table) => {
                self.columns.clone_from(&table.alignments);
                self.open_tag("<table>", "</table>")
            }
            NodeValue::TableRow(header) => self.start_row(node, *header),
            NodeValue::TableCell => self.start_cell(node),
            _ => self.start_inline(node, &data.value),
        };
        self.ends.push(end);
    }

    fn start_inline(&mut self, node: Node<'_>, value: &NodeValue) -> &'static str {
        match value {
            NodeValue::Text(text) => {
                self.write_text(text);
                ""
            }
            NodeValue::SoftBreak => self.open_tag("\n", ""),
            NodeValue::LineBreak => self.open_tag("<br>", ""),
            NodeValue::Code(code) => {
                let end = self.open_tag("<code>", "</code>");
                self.write_escaped(&code.literal);
                end
            }
            NodeValue::HtmlInline(html) if self.reads_inline(html) => {
                self.inline_html(html);
                ""
            }
            NodeValue::HtmlInline(html) => {
                if !html.starts_with("<!--") {
                    self.write_escaped(html);
                }
                ""
            }
            NodeValue::Emph => self.open_tag("<em>", "</em>"),
            NodeValue::Strong => self.open_tag("<strong>", "</strong>"),
            NodeValue::Strikethrough => self.open_tag("<del>", "</del>"),
            NodeValue::Subscript if is_word(node) => self.open_tag("<sub>", "</sub>"),
            NodeValue::Subscript => self.open_tag("~", "~"),
            NodeValue::Link(link) => self.open_link(link, ""),
            NodeValue::Image(image) => {
                let end = self.open_link(image, " data-image=\"\"");
                self.images.push(self.out.len());
                end
            }
            _ => "",
        }
    }

    fn end_node(&mut self, node: Node<'_>) {
        let end = self.ends.pop().unwrap_or("");
        self.close_deeper(self.ends.len());
        let data = node.data();
        match &data.value {
            NodeValue::Image(image) => {
                // An image without a description shows its address.
                if self.images.pop() == Some(self.out.len()) {
                    self.write_escaped(&image.url);
                }
                self.links -= usize::from(end == "</a>");
            }
            NodeValue::Link(_) => self.links -= usize::from(end == "</a>"),
            _ => {}
        }
        self.out.push_str(end);
        let is_top = node.parent().is_some_and(|parent| matches!(parent.data().value, NodeValue::Document));
        let is_item =
            matches!(data.value, NodeValue::Item(_) | NodeValue::TaskItem(_) | NodeValue::TableRow(_));
        // Separates blocks from a preceding text without an element.
        let is_cell = matches!(data.value, NodeValue::TableCell);
        let is_block = node.next_sibling().is_some() && data.value.block() && !is_cell;
        if is_top || is_item || is_block {
            self.out.push('\n');
        }
    }

    /// Opens an element unless it is too deep, and returns its closing tag.
    fn open_tag(&mut self, start: &str, end: &'static str) -> &'static str {
        if !self.has_room() {
            self.out.push(' ');
            return "";
        }
        self.out.push_str(start);
        end
    }

    /// Returns the number of elements of Markdown around the next output.
    fn depth(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if a further element does not nest too deeply.
    fn has_room(&self) -> bool {
        self.ends.len() + self.html.len() <= NESTING_MAX
    }

    fn start_row(&mut self, node: Node<'_>, header: bool) -> &'static str {
        self.column = 0;
        if header {
            return self.open_tag("<thead><tr>", "</tr></thead>");
        }
        let is_header = |row: Node<'_>| matches!(row.data().value, NodeValue::TableRow(true));
        let first = node.previous_sibling().is_none_or(is_header);
        let start = if first { "<tbody><tr>" } else { "<tr>" };
        let end = if node.next_sibling().is_none() { "</tr></tbody>" } else { "</tr>" };
        self.open_tag(start, end)
    }

    fn start_cell(&mut self, node: Node<'_>) -> &'static str {
        let header = node.parent().is_some_and(|row| matches!(row.data().value, NodeValue::TableRow(true)));
        let alignment = self.columns.get(self.column).copied().unwrap_or(TableAlignment::None);
        self.column += 1;
        let align = match alignment {
            TableAlignment::None => "",
            TableAlignment::Left => " align=\"left\"",
            TableAlignment::Center => " align=\"center\"",
            TableAlignment::Right => " align=\"right\"",
        };
        let (name, end) = if header { ("th", "</th>") } else { ("td", "</td>") };
        self.open_tag(&format!("<{name}{align}>"), end)
    }

    /// Opens a link. `of_file` are the attributes of a link into the workspace.
    fn open_link(&mut self, link: &NodeLink, of_file: &str) -> &'static str {
        if self.links > 0 || !self.has_room() {
            return "";
        }
        // Links of a document are relative to its folder.
        let file = || link::workspace_file_href(&link.url).filter(|_| self.raw_html == RawHtml::Shown);
        let address = link::allowed_address(&link.url).map(|address| (address, ""));
        let Some((address, attributes)) = address.or_else(|| Some((file()?, of_file))) else { return "" };
        self.links += 1;
        self.out.push_str("<a href=\"");
        self.write_escaped(&address);
        self.out.push_str(&format!("\"{attributes} rel=\"{LINK_REL}\">"));
        "</a>"
    }

    /// Emits text, with links in place of its marks.
    fn write_text(&mut self, text: &str) {
        let mut rest = text;
        while let Some(open) = rest.find(MARK_OPEN) {
            let before = &rest[..open];
            let after = &rest[open + MARK_OPEN.len_utf8()..];
            let close = after.find(MARK_CLOSE).unwrap_or(after.len());
            let number = &after[..close];
            rest = after[close..].strip_prefix(MARK_CLOSE).unwrap_or("");
            let whole = before.ends_with('[') && rest.starts_with(']');
            if let Some(link) = whole.then(|| self.citation_link(number)).flatten() {
                self.write_escaped(&before[..before.len() - 1]);
                self.out.push_str(&link);
                rest = &rest[1..];
            } else {
                self.write_escaped(before);
                self.write_escaped(number);
            }
        }
        self.write_escaped(rest);
    }

    fn citation_link(&self, number: &str) -> Option<String> {
        if self.links > 0 {
            return None;
        }
        let number: u32 = number.parse().ok()?;
        let href = link::source_href(self.sources.source_place(number)?)?;
        let mut link = String::from("<a href=\"");
        escape_html(&href, &mut link);
        let id = link::citation_id(number);
        link.push_str(&format!("\" data-citation=\"{id}\" rel=\"{LINK_REL}\">[{number}]</a>"));
        Some(link)
    }

    fn write_escaped(&mut self, text: &str) {
        escape_html(text, &mut self.out);
    }
}

/// Returns HTML without its comments; an unclosed one is text.
fn without_comments(html: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    while let Some(start) = rest.find("<!--")
        && let Some(length) = rest[start..].find("-->")
    {
        out.push_str(&rest[..start]);
        rest = &rest[start + length + "-->".len()..];
    }
    out.push_str(rest);
    out.trim().to_owned()
}

/// Returns true if an element holds a single piece of text without spaces.
fn is_word(node: Node<'_>) -> bool {
    let only = node.first_child().filter(|child| child.next_sibling().is_none());
    only.is_some_and(
        |child| matches!(&child.data().value, NodeValue::Text(text) if !text.contains(char::is_whitespace)),
    )
}

fn in_tight_list(paragraph: Node<'_>) -> bool {
    let list = paragraph.parent().and_then(|item| item.parent());
    list.is_some_and(|list| matches!(&list.data().value, NodeValue::List(list) if list.tight))
}
