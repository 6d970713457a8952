//! Writes equations of Office documents (OMML) on one line: `(1+x)^n`, `(a)/(b)`, `∑_(i=1)^n x`.

use quick_xml::events::BytesStart;

use super::xml::{attribute_value, push_within};

/// The maximum depth of parts of an equation; deeper ones are text of the one around them.
const DEPTH_MAX: usize = 64;
/// The maximum text length of an equation, in bytes.
const TEXT_MAX_BYTES: usize = 64 * 1024;

/// An equation that is being read.
#[derive(Default)]
pub(super) struct Equation {
    /// The parts that are open: the whole is the first.
    open: Vec<EquationPart>,
    /// The depth of elements that are not followed.
    too_deep: usize,
    bytes: usize,
}

/// A part of an equation: an element with its content.
#[derive(Default)]
pub(super) struct EquationPart {
    name: String,
    text: String,
    /// Its arguments by their names.
    arguments: Vec<(String, String)>,
    /// The signs that it names: of a sum, or around and between the content of brackets.
    sign: Option<String>,
    begin: Option<String>,
    end: Option<String>,
    separator: Option<String>,
    is_without_bar: bool,
    hides_degree: bool,
}

impl EquationPart {
    fn with_name(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Creates a part of another format, with its arguments by their names.
    pub(super) fn of_arguments(name: &str, arguments: Vec<(String, String)>) -> Self {
        Self { arguments, ..Self::with_name(name) }
    }

    fn argument_text(&self, name: &str) -> &str {
        self.arguments.iter().find(|(known, _)| known == name).map_or("", |(_, text)| text.trim())
    }

    fn all_arguments(&self, name: &str) -> Vec<&str> {
        self.arguments.iter().filter(|(known, _)| known == name).map(|(_, text)| text.trim()).collect()
    }

    /// Writes the part on one line.
    pub(super) fn to_line(&self) -> String {
        let raised =
            |text: &str| if text.is_empty() { String::new() } else { format!("^{}", bracket_operand(text)) };
        let lowered =
            |text: &str| if text.is_empty() { String::new() } else { format!("_{}", bracket_operand(text)) };
        let (sub, sup) = (self.argument_text("sub"), self.argument_text("sup"));
        match self.name.as_str() {
            "f" if self.is_without_bar => {
                format!("({}¦{})", self.argument_text("num"), self.argument_text("den"))
            }
            "f" => format!(
                "{}/{}",
                bracket_text(self.argument_text("num")),
                bracket_text(self.argument_text("den"))
            ),
            "sSup" | "sSub" | "sSubSup" => {
                format!("{}{}{}", bracket_operand(self.argument_text("e")), lowered(sub), raised(sup))
            }
            "sPre" => format!("{}{} {}", lowered(sub), raised(sup), self.argument_text("e")),
            "rad" => match self.argument_text("deg") {
                degree if !degree.is_empty() && !self.hides_degree => {
                    format!("√({}&{})", degree, self.argument_text("e"))
                }
                _ => format!("√{}", bracket_text(self.argument_text("e"))),
            },
            "d" => {
                let separator = self.separator.as_deref().unwrap_or("|");
                let inside = self.all_arguments("e").join(separator);
                let begin = self.begin.as_deref().unwrap_or("(");
                format!("{begin}{inside}{}", self.end.as_deref().unwrap_or(")"))
            }
            "nary" => {
                let sign = self.sign.as_deref().unwrap_or("∫");
                format!("{sign}{}{} {}", lowered(sub), raised(sup), self.argument_text("e"))
            }
            "func" => {
                let (name, of) = (self.argument_text("fName"), self.argument_text("e"));
                let between = if of.starts_with('(') { "" } else { " " };
                format!("{name}{between}{of}")
            }
            "limLow" => format!("{}{}", self.argument_text("e"), lowered(self.argument_text("lim"))),
            "limUpp" => format!("{}{}", self.argument_text("e"), raised(self.argument_text("lim"))),
            "acc" => format!(
                "{}{}",
                bracket_operand(self.argument_text("e")),
                self.sign.as_deref().unwrap_or("\u{302}")
            ),
            "mr" => self.all_arguments("e").join(", "),
            "m" => self.all_arguments("mr").join("; "),
            "eqArr" => self.all_arguments("e").join("; "),
            "bar" | "box" | "borderBox" | "groupChr" | "phant" => self.all_arguments("e").concat(),
            _ => self.text.clone(),
        }
    }
}

/// Returns a text in brackets, unless it is a single sign or already in brackets.
fn bracket_operand(text: &str) -> String {
    let is_word = text.chars().all(char::is_alphanumeric);
    if is_word || text.chars().count() <= 1 || is_bracketed(text) || is_name(text) {
        text.to_owned()
    } else {
        format!("({text})")
    }
}

/// Returns a text in brackets, unless it already is.
fn bracket_text(text: &str) -> String {
    if is_bracketed(text) { text.to_owned() } else { format!("({text})") }
}

/// Returns true for a letter with an accent.
fn is_name(text: &str) -> bool {
    text.chars().all(|letter| letter.is_alphanumeric() || ('\u{300}'..='\u{36f}').contains(&letter))
}

/// Returns true if the first bracket is closed by the last sign.
fn is_bracketed(text: &str) -> bool {
    let mut depth = 0_usize;
    let last = text.chars().count().saturating_sub(1);
    for (at, letter) in text.chars().enumerate() {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at == last && last > 0;
        }
    }
    false
}

impl Equation {
    /// Returns true for the element that an equation is in.
    pub(super) fn is_begun_by(element: &BytesStart<'_>) -> bool {
        element.local_name().as_ref() == "oMath"
    }

    pub(super) fn new() -> Self {
        Self { open: vec![EquationPart::with_name("oMath")], ..Self::default() }
    }

    pub(super) fn start_element(&mut self, element: &BytesStart<'_>, opens: bool) {
        let name = element.local_name();
        let value = || attribute_value(element, "val");
        if let Some(part) = self.open.last_mut() {
            match name.as_ref() {
                "chr" => part.sign = value(),
                "begChr" => part.begin = Some(value().unwrap_or_default()),
                "endChr" => part.end = Some(value().unwrap_or_default()),
                "sepChr" => part.separator = value(),
                "type" => part.is_without_bar |= value().as_deref() == Some("noBar"),
                "degHide" => part.hides_degree = value().is_none_or(|value| value != "0" && value != "off"),
                _ => {}
            }
        }
        // Properties belong to the element that contains them.
        if !opens || name.as_ref().ends_with("Pr") {
            return;
        }
        if self.open.len() >= DEPTH_MAX {
            self.too_deep += 1;
        } else {
            self.open.push(EquationPart::with_name(name.as_ref()));
        }
    }

    pub(super) fn push_text(&mut self, text: &str) {
        let in_text = self.open.last().is_some_and(|part| part.name == "t") || self.too_deep > 0;
        if let Some(part) = self.open.last_mut().filter(|_| in_text) {
            let room = TEXT_MAX_BYTES.saturating_sub(self.bytes);
            let max_bytes = part.text.len() + room;
            push_within(&mut part.text, text, max_bytes);
            self.bytes += text.len();
        }
    }

    /// Ends an element. Returns the line of the equation if that was all of it.
    pub(super) fn end_element(&mut self, name: &str) -> Option<String> {
        if name.ends_with("Pr") {
            return None;
        }
        if self.too_deep > 0 {
            self.too_deep -= 1;
            return None;
        }
        let part = self.open.pop()?;
        let written = part.to_line();
        let Some(outer) = self.open.last_mut() else { return Some(written) };
        let is_argument = matches!(
            part.name.as_str(),
            "num" | "den" | "e" | "sub" | "sup" | "deg" | "fName" | "lim" | "mr"
        );
        if is_argument {
            outer.arguments.push((part.name, written));
        } else {
            outer.text.push_str(&written);
        }
        None
    }
}
