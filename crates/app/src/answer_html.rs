//! The HTML of answers, fitted into a page: links to the application's own files, headings below those of the page, wide code
//! and tables that the keyboard can scroll, and code that can be copied.
//!
//! The HTML comes from the renderer, so `<` begins a tag and nothing else, and tags have no more attributes than it writes.

use crate::cited::CitingAnswer;

/// The link to a file in rendered HTML, without `<`.
const API_FILE_LINK: &str = "a href=\"/api/v1/files/";
const OWN_FILE_LINK: &str = "a href=\"/files/";
/// The text between the address of a citation's link and its number.
const CITATION: &str = "\" data-citation=\"c";
/// A code block and its button, which the style sheet shows if the script can copy. The page has the label, in its language.
const CODE_BLOCK: &str = "div class=\"code\"><button type=\"button\" class=\"copy-code\" aria-labelledby=\"copy-code\">\
    <svg viewBox=\"0 0 24 24\" aria-hidden=\"true\"><path d=\"M9 9h10v11H9zM15 9V4H5v11h4\"/></svg></button>\
    <pre tabindex=\"0\">";
/// The level of the heading above each answer.
const ABOVE: u8 = 2;
/// The lowest level of a heading.
const LOWEST: u8 = 6;

/// Fits the texts of an answer into its page, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnswerHtml {
    /// The level of the last heading, as shown.
    level: u8,
    cited: CitingAnswer,
}

impl AnswerHtml {
    pub(crate) const fn of(cited: CitingAnswer) -> Self {
        Self { level: ABOVE, cited }
    }

    /// Returns the HTML of the next text.
    pub(crate) fn fit(&mut self, html: &str) -> String {
        let mut out = String::with_capacity(html.len());
        let mut pieces = html.split('<');
        out.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            out.push('<');
            self.fit_tag(piece, &mut out);
        }
        out
    }

    fn fit_tag(&mut self, tag: &str, out: &mut String) {
        if let Some(rest) = tag.strip_prefix(API_FILE_LINK) {
            out.push_str(OWN_FILE_LINK);
            return self.fit_file_link(rest, out);
        }
        let replaced = [
            ("pre>", CODE_BLOCK),
            ("/pre>", "/pre></div>"),
            ("table>", "div class=\"scroll\" tabindex=\"0\"><table>"),
            ("/table>", "/table></div>"),
        ];
        let replaced = replaced.iter().find_map(|(from, to)| Some((tag.strip_prefix(from)?, to)));
        if let Some((rest, to)) = replaced {
            out.push_str(to);
            out.push_str(rest);
        } else if let Some((level, rest)) = heading(tag) {
            // A level is never skipped, whatever the model writes.
            self.level = (level + ABOVE).min(self.level + 1).min(LOWEST);
            out.push_str(&format!("h{}>{rest}", self.level));
        } else if let Some((_, rest)) = tag.strip_prefix('/').and_then(heading) {
            out.push_str(&format!("/h{}>{rest}", self.level));
        } else {
            out.push_str(tag);
        }
    }
}

impl AnswerHtml {
    /// Leads a link to the page of the file, which shows the passage that it cites.
    fn fit_file_link(&self, rest: &str, out: &mut String) {
        let (address, after) = rest.split_once('"').unwrap_or((rest, ""));
        let (path, _) = address.split_once('#').unwrap_or((address, ""));
        out.push_str(path);
        out.push_str("?view");
        let number = rest[address.len()..].strip_prefix(CITATION).and_then(|rest| rest.split_once('"'));
        if let Some((number, _)) = number {
            out.push_str(&format!("&amp;{}", self.cited.field(number)));
        }
        out.push('"');
        out.push_str(after);
    }
}

/// Splits a heading's tag into its level and what follows the tag.
fn heading(tag: &str) -> Option<(u8, &str)> {
    let (level, rest) = tag.strip_prefix('h')?.split_once('>')?;
    let level = level.parse().ok().filter(|level| (1..=LOWEST).contains(level))?;
    Some((level, rest))
}

#[cfg(test)]
mod tests {
    use domain::id::{ConversationId, MessageId};

    use super::*;

    fn answer() -> AnswerHtml {
        let conversation = "00000000-0000-0000-0000-000000000001".parse::<ConversationId>().unwrap();
        let answer = "00000000-0000-0000-0000-000000000002".parse::<MessageId>().unwrap();
        AnswerHtml::of(CitingAnswer { conversation, answer })
    }

    #[test]
    fn links_to_files_lead_to_the_application() {
        let html = "<p><a href=\"/api/v1/files/uploads/a.pdf#page=2\" data-citation=\"c1\" rel=\"x\">[1]</a> \
                    &lt;a href=\"/api/v1/files/x\"</p>";
        let fitted = "<p><a href=\"/files/uploads/a.pdf?view&amp;cited=00000000-0000-0000-0000-000000000001.\
                      00000000-0000-0000-0000-000000000002.1#cited\" data-citation=\"c1\" rel=\"x\">[1]</a> \
                      &lt;a href=\"/api/v1/files/x\"</p>";
        assert_eq!(answer().fit(html), fitted);
    }

    #[test]
    fn headings_stand_below_those_of_the_page_and_skip_no_level() {
        let mut answer = answer();
        assert_eq!(answer.fit("<h3>a</h3><hr><h4>b</h4>"), "<h3>a</h3><hr><h4>b</h4>");
        assert_eq!(answer.fit("<h1>c <em>d</em></h1>"), "<h3>c <em>d</em></h3>");
        assert_eq!(
            answer.fit("<h6>e</h6><h6>f</h6>"),
            "<h4>e</h4><h5>f</h5>",
            "goes on from the text before"
        );
    }

    #[test]
    fn wide_things_are_reached_by_the_keyboard() {
        let html = "<pre><code>x</code></pre><table><tbody></tbody></table>";
        let fitted = format!(
            "<{CODE_BLOCK}<code>x</code></pre></div>\
             <div class=\"scroll\" tabindex=\"0\"><table><tbody></tbody></table></div>"
        );
        assert_eq!(answer().fit(html), fitted);
    }
}
