//! Renders text as HTML: escaped, with the parts of Markdown that descriptions use: paragraphs, lists, code.

use std::fmt::{self, Display, Formatter, Write};

/// Displays text escaped for HTML content and attributes.
pub(super) struct Plain<T>(pub(super) T);

impl<T: Display> Display for Plain<T> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(Escaping(out), "{}", self.0)
    }
}

struct Escaping<'a, 'b>(&'a mut Formatter<'b>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            match letter {
                '&' => self.0.write_str("&amp;")?,
                '<' => self.0.write_str("&lt;")?,
                '>' => self.0.write_str("&gt;")?,
                '"' => self.0.write_str("&quot;")?,
                other => self.0.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// Displays one line of a description.
pub(super) struct DescriptionLine<'a>(pub(super) &'a str);

impl Display for DescriptionLine<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for (index, piece) in self.0.split('`').enumerate() {
            match index % 2 {
                0 => write!(out, "{}", Plain(piece))?,
                _ => write!(out, "<code>{}</code>", Plain(piece))?,
            }
        }
        Ok(())
    }
}

/// Displays a complete description.
pub(super) struct Description<'a>(pub(super) &'a str);

impl Display for Description<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for paragraph in self.0.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty()) {
            match paragraph.strip_prefix("- ") {
                Some(list) => {
                    write!(out, "<ul>")?;
                    for item in list.split("\n- ") {
                        write!(out, "<li>{}</li>", DescriptionLine(item))?;
                    }
                    write!(out, "</ul>")?;
                }
                None => write!(out, "<p>{}</p>", DescriptionLine(paragraph))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        let rendered = Description("a `<b>` \"c\" & d\n\n- one\n- `two`").to_string();
        let html = "<p>a <code>&lt;b&gt;</code> &quot;c&quot; &amp; d</p><ul><li>one</li><li><code>two</code></li></ul>";
        assert_eq!(rendered, html);
    }
}
