//! Reads the Markdown files of skills and agents: frontmatter, description, name and instructions.

use crate::frontmatter::{self, Head};
use crate::reader::Reader;
use crate::tree::Tree;
use crate::{DESCRIPTION_MAX_CHARS, INSTRUCTIONS_MAX_BYTES, NAME_MAX_BYTES, TEXT_FILE_MAX_BYTES};

impl Reader {
    /// Reads the frontmatter and the description of a file; files without them are skipped. A skill without a
    /// description may be described by the first paragraph of its instructions, as other programs do.
    pub(crate) fn head(
        &mut self,
        tree: &Tree,
        file: &str,
        may_be_described_by_text: bool,
    ) -> Option<(Head, String)> {
        let head = match tree.any_text(file, TEXT_FILE_MAX_BYTES) {
            Ok((text, is_latin)) => match frontmatter::read(&text) {
                Ok(head) => {
                    if is_latin {
                        self.note(&tree.shown(file), None, "it is not UTF-8: it is read as Latin-1", false);
                    }
                    head
                }
                Err(error) => {
                    self.note(&tree.shown(file), Some(1), error.to_string(), true);
                    return None;
                }
            },
            Err(error) => {
                self.skip(tree, file, error.to_string());
                return None;
            }
        };
        for (line, problem) in &head.problems {
            self.note(&tree.shown(file), Some(*line), problem.clone(), false);
        }
        let written = head.text("description").map(|text| one_line(&text));
        let written = written.filter(|text| !text.is_empty());
        let described = written.or_else(|| {
            let first = may_be_described_by_text.then(|| first_paragraph(&head.body)).flatten()?;
            let notice = "there is no description: the first paragraph is used";
            self.note(&tree.shown(file), head.line("description").or(Some(1)), notice, false);
            Some(first)
        });
        let Some(description) = described else {
            let line = Some(head.line("description").unwrap_or(1));
            self.note(
                &tree.shown(file),
                line,
                "there is no description of what it does and when to use it",
                true,
            );
            return None;
        };
        if description.chars().count() > DESCRIPTION_MAX_CHARS {
            let notice = format!("the description is cut after {DESCRIPTION_MAX_CHARS} characters");
            self.note(&tree.shown(file), head.line("description"), notice, false);
        }
        Some((head, description.chars().take(DESCRIPTION_MAX_CHARS).collect()))
    }

    /// Returns the name in the frontmatter if it is valid.
    pub(crate) fn name(&mut self, tree: &Tree, file: &str, head: &Head, short: &str) -> String {
        let written = head.text("name").map(|name| one_line(&name));
        let Some(written) = written.filter(|name| !name.is_empty()) else {
            self.note(&tree.shown(file), Some(1), format!("there is no name: {short} is used"), false);
            return short.to_owned();
        };
        if written.len() > NAME_MAX_BYTES {
            let notice = format!("the name is longer than {NAME_MAX_BYTES} bytes: {short} is used");
            self.note(&tree.shown(file), head.line("name"), notice, false);
            return short.to_owned();
        }
        if written != short {
            let notice = format!(
                "its name is {written}, but its file's place says {short}: its full name uses {short}"
            );
            self.note(&tree.shown(file), head.line("name"), notice, false);
        }
        written
    }

    pub(crate) fn instructions(&mut self, tree: &Tree, file: &str, head: &Head, plugin: &str) -> String {
        let place = format!("{}/{plugin}", crate::MACHINE_FOLDER);
        let text = head.body.trim().replace("${CLAUDE_PLUGIN_ROOT}", &place);
        if text.len() <= INSTRUCTIONS_MAX_BYTES {
            return text;
        }
        let notice = format!("the instructions are cut after {INSTRUCTIONS_MAX_BYTES} bytes");
        self.note(&tree.shown(file), None, notice, false);
        let end = text.floor_char_boundary(INSTRUCTIONS_MAX_BYTES);
        format!("{}\n\n(The rest is cut off because it is too long.)", &text[..end])
    }
}

/// Returns the first paragraph of a text that is no heading, as one line.
fn first_paragraph(body: &str) -> Option<String> {
    let is_text = |line: &&str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#') && !line.starts_with("```") && !line.starts_with("---")
    };
    let lines: Vec<&str> = body.lines().skip_while(|line| !is_text(line)).take_while(is_text).collect();
    Some(one_line(&lines.join(" "))).filter(|text| !text.is_empty())
}

/// Collapses white space and control characters so that the text is one line.
pub(crate) fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}
