//! Fits the HTML of answers into a page: links to the application's files, pictures of the workspace, formulas,
//! headings below the page's headings, the direction of each block, wide code and tables that the keyboard can
//! scroll, and code that can be copied.
//!
//! The HTML comes from the renderer, so `<` always begins a tag, and tags have only the attributes that it writes.

use crate::cited::CitingAnswer;
use crate::source_numbers::SourceNumbers;

/// The link to a file in rendered HTML, without `<` and `>`.
const API_FILE_LINK: &str = "a href=\"/api/v1/files/";
const OWN_FILE_LINK: &str = "a href=\"/files/";
/// The text between the address of a citation's link and its number.
const CITATION: &str = " data-citation=\"c";
/// The attribute of a link to a picture of the workspace.
const IMAGE: &str = " data-image=\"\"";
/// The extensions of pictures that browsers show.
const PICTURES: [&str; 6] = [".png", ".jpg", ".jpeg", ".gif", ".webp", ".avif"];
/// A code block and its button, which the style sheet shows if the script can copy. The page has the label, in its language.
const CODE_BLOCK: &str = "div class=\"code\"><button type=\"button\" class=\"copy-code\" aria-labelledby=\"copy-code\">\
    <svg viewBox=\"0 0 24 24\" aria-hidden=\"true\"><path d=\"M9 9h10v11H9zM15 9V4H5v11h4\"/></svg></button>\
    <pre tabindex=\"0\"";
/// The level of the heading above each answer.
const ABOVE: u8 = 2;
/// The lowest level of a heading.
const LOWEST: u8 = 6;
/// The maximum number of bytes of formulas in an answer, drawn and as source. Further formulas are not drawn.
const FORMULAS_MAX_BYTES: usize = 1 << 20;
/// The maximum number of pictures in an answer. Further ones are links.
const PICTURES_MAX: usize = 50;
/// The elements in which formulas are shown as source. A formula in a link could not be scrolled.
const VERBATIM: [&str; 3] = ["a", "code", "pre"];
/// The blocks that have the direction of their text.
const DIRECTED: [&str; 5] = ["p", "ul", "ol", "blockquote", "table"];

/// Fits the texts of an answer into its page, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnswerHtml {
    /// The level of the last heading, as shown.
    level: u8,
    formulas_room: usize,
    pictures_left: usize,
    cited: CitingAnswer,
}

impl AnswerHtml {
    pub(crate) const fn new(cited: CitingAnswer) -> Self {
        let (formulas_room, pictures_left) = (FORMULAS_MAX_BYTES, PICTURES_MAX);
        Self { level: ABOVE, formulas_room, pictures_left, cited }
    }

    /// Returns the HTML of the next text, in whole blocks. Its marks get the page's numbers.
    pub(crate) fn fit_blocks(&mut self, html: &str, numbers: &SourceNumbers) -> String {
        let mut out = String::with_capacity(html.len());
        let mut pieces = html.split('<');
        let (mut verbatim, mut directed) = (0_usize, 0_usize);
        self.fit_text(pieces.next().unwrap_or_default(), verbatim, &mut out);
        for piece in pieces {
            let (tag, text) = piece.split_once('>').unwrap_or((piece, ""));
            let (name, is_end) = match tag.strip_prefix('/') {
                Some(name) => (name, true),
                None => (tag.split(' ').next().unwrap_or_default(), false),
            };
            let count = |open: &mut usize| *open = if is_end { open.saturating_sub(1) } else { *open + 1 };
            if VERBATIM.contains(&name) {
                count(&mut verbatim);
            }
            let is_directed = DIRECTED.contains(&name) || heading_level(name).is_some();
            out.push('<');
            self.fit_tag(tag, is_directed && directed == 0 && !is_end, &mut out);
            if is_directed {
                count(&mut directed);
            }
            match cited_number(tag).map(|number| (number, format!("[{number}]"))) {
                Some((number, mark)) if text == mark => {
                    out.push_str(&format!("[{}]", numbers.page_number(number)));
                }
                _ => self.fit_text(text, verbatim, &mut out),
            }
        }
        out
    }

    fn fit_text(&mut self, text: &str, verbatim: usize, out: &mut String) {
        if verbatim > 0 {
            out.push_str(text);
        } else {
            render::draw_formulas(text, &mut self.formulas_room, out);
        }
    }

    /// Appends a tag without its `<`. The direction of an outermost block follows its text.
    fn fit_tag(&mut self, tag: &str, is_outermost: bool, out: &mut String) {
        if let Some(rest) = tag.strip_prefix(API_FILE_LINK) {
            out.push_str(OWN_FILE_LINK);
            return self.fit_file_link(rest, out);
        }
        if let Some(level) = heading_level(tag) {
            // A level is never skipped, even if the model skips one.
            self.level = (level + ABOVE).min(self.level + 1).min(LOWEST);
            out.push_str(&format!("h{}", self.level));
        } else if tag.strip_prefix('/').and_then(heading_level).is_some() {
            out.push_str(&format!("/h{}", self.level));
        } else {
            out.push_str(match tag {
                "pre" => CODE_BLOCK,
                "/pre" => "/pre></div",
                "table" => "div class=\"scroll\" tabindex=\"0\"><table",
                "/table" => "/table></div",
                other => other,
            });
        }
        out.push_str(if is_outermost { " dir=\"auto\">" } else { ">" });
    }

    /// Points a link to the page of the file, which shows the cited passage. A picture is shown above its
    /// description.
    fn fit_file_link(&mut self, rest: &str, out: &mut String) {
        let (address, attributes) = rest.split_once('"').unwrap_or((rest, ""));
        let (path, _) = address.split_once('#').unwrap_or((address, ""));
        out.push_str(path);
        out.push_str("?view");
        let number = attributes.strip_prefix(CITATION).and_then(|rest| rest.split_once('"'));
        if let Some((number, _)) = number {
            out.push_str(&format!("&amp;{}", self.cited.query_field(number)));
        }
        let Some(others) = attributes.strip_prefix(IMAGE) else {
            out.push_str(&format!("\"{attributes}>"));
            return;
        };
        let name = path.to_ascii_lowercase();
        if self.pictures_left == 0 || !PICTURES.iter().any(|extension| name.ends_with(extension)) {
            out.push_str(&format!("\"{others}>"));
            return;
        }
        self.pictures_left -= 1;
        out.push_str(&format!(
            "\" class=\"picture\"{others}><img src=\"/files/{path}?image\" alt=\"\" loading=\"lazy\">"
        ));
    }
}

/// Returns the numbers in the interface of the sources that rendered HTML cites.
pub(crate) fn cited_numbers(html: &str) -> impl Iterator<Item = u32> + '_ {
    html.split('<').filter_map(cited_number)
}

/// Returns the number of the source whose citation a tag begins.
fn cited_number(tag: &str) -> Option<u32> {
    let (_, attributes) = tag.strip_prefix("a href=\"")?.split_once('"')?;
    attributes.strip_prefix(CITATION)?.split_once('"')?.0.parse().ok()
}

/// Returns the level of a heading's tag.
fn heading_level(tag: &str) -> Option<u8> {
    let level = tag.strip_prefix('h')?.parse().ok()?;
    Some(level).filter(|level| (1..=LOWEST).contains(level))
}

#[cfg(test)]
mod tests {
    use domain::id::{ConversationId, MessageId};

    use super::*;

    fn sample_answer_html() -> AnswerHtml {
        let conversation = "00000000-0000-0000-0000-000000000001".parse::<ConversationId>().unwrap();
        let answer = "00000000-0000-0000-0000-000000000002".parse::<MessageId>().unwrap();
        AnswerHtml::new(CitingAnswer { conversation, answer })
    }

    fn fitted_of(answer: &mut AnswerHtml, html: &str) -> String {
        answer.fit_blocks(html, &SourceNumbers::default())
    }

    #[test]
    fn fit_blocks_numbers_marks() {
        let html = "<p>It is due <a href=\"https://a.example/?x=[4]\" data-citation=\"c4\" rel=\"x\">[4]</a>\
                    <a href=\"https://b.example/\" data-citation=\"c2\" rel=\"x\">[2]</a> <a href=\"https://c.example/\">[4]</a> [4]</p>";
        let numbered = "<p dir=\"auto\">It is due <a href=\"https://a.example/?x=[4]\" data-citation=\"c4\" rel=\"x\">[1]</a>\
                    <a href=\"https://b.example/\" data-citation=\"c2\" rel=\"x\">[2]</a> <a href=\"https://c.example/\">[4]</a> [4]</p>";
        assert_eq!(sample_answer_html().fit_blocks(html, &SourceNumbers::in_order([4, 2])), numbered);
        assert_eq!(cited_numbers(html).collect::<Vec<_>>(), [4, 2]);
    }

    #[test]
    fn fit_blocks_links_workspace_files() {
        let html = "<p><a href=\"/api/v1/files/uploads/a.pdf#page=2\" data-citation=\"c1\" rel=\"x\">[1]</a> \
                    &lt;a href=\"/api/v1/files/x\"</p>";
        let fitted = "<p dir=\"auto\"><a href=\"/files/uploads/a.pdf?view&amp;cited=00000000-0000-0000-0000-000000000001.\
                      00000000-0000-0000-0000-000000000002.1#cited\" data-citation=\"c1\" rel=\"x\">[1]</a> \
                      &lt;a href=\"/api/v1/files/x\"</p>";
        assert_eq!(fitted_of(&mut sample_answer_html(), html), fitted);
    }

    #[test]
    fn fit_blocks_lowers_headings() {
        let mut answer = sample_answer_html();
        assert_eq!(
            fitted_of(&mut answer, "<h3>a</h3><hr><h4>b</h4>"),
            "<h3 dir=\"auto\">a</h3><hr><h4 dir=\"auto\">b</h4>"
        );
        assert_eq!(fitted_of(&mut answer, "<h1>c <em>d</em></h1>"), "<h3 dir=\"auto\">c <em>d</em></h3>");
        assert_eq!(
            fitted_of(&mut answer, "<h6>e</h6><h6>f</h6>"),
            "<h4 dir=\"auto\">e</h4><h5 dir=\"auto\">f</h5>",
            "goes on from the text before"
        );
    }

    #[test]
    fn fit_blocks_makes_wide_content_focusable() {
        let html = "<pre><code>x</code></pre><table><tbody></tbody></table>";
        let fitted = format!(
            "<{CODE_BLOCK}><code>x</code></pre></div>\
             <div class=\"scroll\" tabindex=\"0\"><table dir=\"auto\"><tbody></tbody></table></div>"
        );
        assert_eq!(fitted_of(&mut sample_answer_html(), html), fitted);
    }

    #[test]
    fn fit_blocks_sets_text_direction() {
        let html =
            "<h1>a</h1><p>שלום</p><ul><li><p>שלום</p></li></ul><blockquote><p>a</p></blockquote><p>b</p>";
        let fitted = "<h3 dir=\"auto\">a</h3><p dir=\"auto\">שלום</p><ul dir=\"auto\"><li><p>שלום</p></li></ul>\
                      <blockquote dir=\"auto\"><p>a</p></blockquote><p dir=\"auto\">b</p>";
        assert_eq!(fitted_of(&mut sample_answer_html(), html), fitted);
    }

    #[test]
    fn fit_blocks_shows_workspace_pictures() {
        let image =
            |path: &str| format!("<a href=\"/api/v1/files/{path}\" data-image=\"\" rel=\"x\">A chart</a>");
        assert_eq!(
            fitted_of(&mut sample_answer_html(), &image("out/c%20d.PNG")),
            "<a href=\"/files/out/c%20d.PNG?view\" class=\"picture\" rel=\"x\">\
             <img src=\"/files/out/c%20d.PNG?image\" alt=\"\" loading=\"lazy\">A chart</a>"
        );
        assert_eq!(
            fitted_of(&mut sample_answer_html(), &image("a.svg")),
            "<a href=\"/files/a.svg?view\" rel=\"x\">A chart</a>"
        );
        let many = fitted_of(&mut sample_answer_html(), &image("a.png").repeat(PICTURES_MAX + 1));
        assert_eq!(many.matches("<img").count(), PICTURES_MAX);
    }

    #[test]
    fn fit_blocks_draws_formulas() {
        let formula = r"\(a_1\)";
        let fitted = fitted_of(
            &mut sample_answer_html(),
            &format!(
                "<p>{formula} <code>{formula}</code> <a href=\"https://x.y\">{formula}</a></p><pre><code>{formula}</code></pre>"
            ),
        );
        assert_eq!((fitted.matches("<math>").count(), fitted.matches(formula).count()), (1, 3), "{fitted}");
        let mut answer = sample_answer_html();
        let many = fitted_of(&mut answer, &format!("<p>{}</p>", format!("{formula} ").repeat(20_000)));
        assert!(
            many.len() < 3 * FORMULAS_MAX_BYTES && many.contains(&format!(" {formula} ")),
            "{}",
            many.len()
        );
        assert_eq!(answer.formulas_room, 0);
    }
}
