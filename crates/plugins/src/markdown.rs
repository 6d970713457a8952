//! Reads the Markdown files of skills and agents: frontmatter, description, name and instructions.

use crate::frontmatter::{self, Frontmatter};
use crate::reader::PluginReader;
use crate::tree::PluginTree;
use crate::{DESCRIPTION_MAX_CHARS, INSTRUCTIONS_MAX_BYTES, NAME_MAX_BYTES, TEXT_FILE_MAX_BYTES};

impl PluginReader {
    /// Reads the frontmatter and the description of a file; files without them are skipped. A skill without a
    /// description may be described by the first paragraph of its instructions, as other programs do.
    pub(crate) fn read_head(
        &mut self,
        tree: &PluginTree,
        file: &str,
        may_be_described_by_text: bool,
    ) -> Option<(Frontmatter, String)> {
        let head = match tree.any_text(file, TEXT_FILE_MAX_BYTES) {
            Ok((text, is_latin)) => match frontmatter::parse_frontmatter(&text) {
                Ok(head) => {
                    if is_latin {
                        self.add_notice(
                            &tree.display_path(file),
                            None,
                            "it is not UTF-8: it is read as Latin-1",
                            false,
                        );
                    }
                    head
                }
                Err(error) => {
                    self.add_notice(&tree.display_path(file), Some(1), error.to_string(), true);
                    return None;
                }
            },
            Err(error) => {
                self.report_skipped(tree, file, error.to_string());
                return None;
            }
        };
        for (line, problem) in &head.problems {
            self.add_notice(&tree.display_path(file), Some(*line), problem.clone(), false);
        }
        let written = head.get_text("description").map(|text| one_line(&text));
        let written = written.filter(|text| !text.is_empty());
        let described = written.or_else(|| {
            let first = may_be_described_by_text.then(|| first_paragraph(&head.body)).flatten()?;
            let notice = "description is missing: the first paragraph is used";
            self.add_notice(
                &tree.display_path(file),
                head.line_of_key("description").or(Some(1)),
                notice,
                false,
            );
            Some(first)
        });
        let Some(description) = described else {
            let line = Some(head.line_of_key("description").unwrap_or(1));
            self.add_notice(
                &tree.display_path(file),
                line,
                "description is missing: say what it does and when to use it",
                true,
            );
            return None;
        };
        if description.chars().count() > DESCRIPTION_MAX_CHARS {
            let notice = format!("the description is cut after {DESCRIPTION_MAX_CHARS} characters");
            self.add_notice(&tree.display_path(file), head.line_of_key("description"), notice, false);
        }
        Some((head, description.chars().take(DESCRIPTION_MAX_CHARS).collect()))
    }

    /// Returns the name in the frontmatter if it is valid.
    pub(crate) fn choose_name(
        &mut self,
        tree: &PluginTree,
        file: &str,
        head: &Frontmatter,
        short: &str,
    ) -> String {
        let written = head.get_text("name").map(|name| one_line(&name));
        let Some(written) = written.filter(|name| !name.is_empty()) else {
            self.add_notice(
                &tree.display_path(file),
                Some(1),
                format!("name is missing: {short} is used"),
                false,
            );
            return short.to_owned();
        };
        if written.len() > NAME_MAX_BYTES {
            let notice = format!("the name is longer than {NAME_MAX_BYTES} bytes: {short} is used");
            self.add_notice(&tree.display_path(file), head.line_of_key("name"), notice, false);
            return short.to_owned();
        }
        if written != short {
            let notice = format!(
                "its name is {written}, but its file's place says {short}: its full name uses {short}"
            );
            self.add_notice(&tree.display_path(file), head.line_of_key("name"), notice, false);
        }
        written
    }

    pub(crate) fn read_instructions(
        &mut self,
        tree: &PluginTree,
        file: &str,
        head: &Frontmatter,
        plugin: &str,
    ) -> String {
        let place = format!("{}/{plugin}", crate::MACHINE_FOLDER);
        let text = head.body.trim().replace("${CLAUDE_PLUGIN_ROOT}", &place);
        if text.len() <= INSTRUCTIONS_MAX_BYTES {
            return text;
        }
        let notice = format!("the instructions are cut after {INSTRUCTIONS_MAX_BYTES} bytes");
        self.add_notice(&tree.display_path(file), None, notice, false);
        let end = text.floor_char_boundary(INSTRUCTIONS_MAX_BYTES);
        format!("{}\n\n(The rest is cut off because it is too long.)", &text[..end])
    }
}

/// Returns the first paragraph of a text that is not a heading, as one line.
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
