//! Fuzzes Markdown to HTML: only allowed HTML is emitted, and incremental rendering equals full rendering.

use domain::answer::AnswerSource;
use domain::citation::PassagePlace;
use render::{CitationSources, Renderer, cited_sources, draw_formulas, render_answer, render_document};

const ELEMENTS: [&str; 30] = [
    "a",
    "blockquote",
    "br",
    "code",
    "del",
    "details",
    "em",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "kbd",
    "li",
    "ol",
    "p",
    "pre",
    "strong",
    "sub",
    "summary",
    "sup",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "ul",
];
const SCHEMES: [&str; 4] = ["http://", "https://", "mailto:", "/api/v1/files/"];

/// Runs one input.
///
/// # Panics
/// Panics when a promise is broken.
pub fn try_input(data: &[u8]) {
    let Some((&size, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let sources = sample_sources();
    let sources: &dyn CitationSources = &sources.as_slice();
    let html = render_answer(text, sources);
    assert_safe(&html);
    try_formulas(&html);
    assert_safe(&render_document(text));
    let cited = cited_sources(text, sources);
    assert!(cited.iter().all(|number| sources.source_place(*number).is_some()));
    assert_eq!(render_incrementally(text, usize::from(size % 61) + 1, sources), html);
}

/// Draws the formulas between the tags: the output is balanced and within its size limit.
fn try_formulas(html: &str) {
    const ROOM: usize = 100_000;
    for text in html.split(['<', '>']) {
        let (mut room, mut out) = (ROOM, String::new());
        draw_formulas(text, &mut room, &mut out);
        assert!(out.len() <= text.len() * 2 + ROOM + ROOM / 4, "{} of {}", out.len(), text.len());
        let mut open = Vec::new();
        for tag in out.split('<').skip(1) {
            let (tag, after) = tag.split_once('>').unwrap_or_else(|| panic!("an open tag: {tag}"));
            assert!(
                !after.contains('>') && !tag.contains(['\'', '&', '='])
                    || tag.matches('=').count() == tag.matches("=\"").count(),
                "{tag}"
            );
            match tag.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name), "not balanced: {out}"),
                None => open.push(tag.split(' ').next().unwrap_or_default()),
            }
        }
        assert!(open.is_empty(), "not closed: {out}");
    }
}

fn sample_sources() -> Vec<AnswerSource> {
    let file =
        |path: &str, page| PassagePlace::File { path: path.into(), page, lines: None, page_name: None };
    let web = |url: &str| PassagePlace::Web { url: url.into(), title: "t".into() };
    vec![
        AnswerSource { number: 1, place: file("/uploads/lease.pdf", Some(3)) },
        AnswerSource { number: 2, place: web("https://example.org/a?b&c") },
        AnswerSource { number: 3, place: web("javascript:alert(1)") },
        AnswerSource { number: 4, place: file("/uploads/a\"b <c>.txt", None) },
    ]
}

fn render_incrementally(text: &str, size: usize, sources: &dyn CitationSources) -> String {
    let mut renderer = Renderer::default();
    let letters: Vec<char> = text.chars().collect();
    for piece in letters.chunks(size) {
        renderer.push_text(&piece.iter().collect::<String>(), sources);
        assert_safe(renderer.tail_html(sources));
    }
    renderer.end_text();
    let tail = renderer.tail_html(sources).to_string();
    let finished: String = renderer.finished_blocks().iter().map(AsRef::as_ref).collect();
    finished + &tail
}

/// Checks each tag independently of the renderer.
fn assert_safe(html: &str) {
    for tag in html.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap_or_else(|| panic!("an open tag: {tag}"));
        let (name, mut attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let element = name.trim_start_matches('/');
        assert!(ELEMENTS.contains(&element), "an element: {tag}");
        while !attributes.is_empty() {
            let (key, rest) = attributes.split_once("=\"").unwrap_or_else(|| panic!("an attribute: {tag}"));
            let (value, rest) = rest.split_once('"').unwrap_or_else(|| panic!("an attribute: {tag}"));
            let allowed = match (name, key) {
                ("a", "href") => SCHEMES.iter().any(|start| value.to_lowercase().starts_with(start)),
                ("a", "data-citation") => value.get(1..).is_some_and(|number| number.parse::<u32>().is_ok()),
                ("a", "rel") => value == "noopener noreferrer nofollow",
                ("a", "data-image") => value.is_empty(),
                ("code", "class") => value.strip_prefix("language-").is_some_and(|language| {
                    language.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+#._-".contains(&byte))
                }),
                ("ol", "start") => value.parse::<u64>().is_ok(),
                ("td" | "th", "align") => ["left", "center", "right"].contains(&value),
                _ => false,
            };
            assert!(allowed, "an attribute: {tag}");
            attributes = rest.trim_start();
        }
    }
}
