//! Writes equations of web pages and OpenDocument (MathML) on one line, like equations of Office: `(1+x)^n`, `(a)/(b)`,
//! `∑_(i=1)^n x`.

use quick_xml::events::Event;

use super::equation::EquationPart;
use super::xml::{attribute_value, event_text, push_within};

/// The maximum depth of elements of an equation; deeper ones are text of the one around them.
const DEPTH_MAX: usize = 64;
/// The maximum text length of an equation, in bytes.
const TEXT_MAX_BYTES: usize = 64 * 1024;
/// The maximum number of elements of an equation; further ones are left out.
const ELEMENTS_MAX: usize = 20_000;
/// The signs of sums, products, integrals and similar operators, which have limits below and above them.
const LARGE_SIGNS: &str = "∑∏∐∫∬∭∮∯∰⋀⋁⋂⋃⨀⨁⨂⨄";

/// An equation that is being read.
#[derive(Debug, Default)]
pub(super) struct MathEquation {
    /// The elements that are open: the whole is the first.
    open: Vec<MathElement>,
    /// The depth of elements that are not followed.
    too_deep: usize,
    bytes: usize,
    elements: usize,
    /// The source of the equation from the program that wrote it, used if it has no other text.
    source: String,
}

/// An element with its content.
#[derive(Debug, Default)]
struct MathElement {
    name: String,
    text: String,
    children: Vec<String>,
    /// True if it encloses its children in brackets: these, with the separator.
    brackets: Option<(String, String, String)>,
    is_without_bar: bool,
    is_accent: bool,
}

impl MathEquation {
    /// Begins an equation. `text` is used if the equation has no content.
    pub(super) fn with_source(text: Option<String>) -> Self {
        let mut source = String::new();
        push_within(&mut source, &text.unwrap_or_default(), TEXT_MAX_BYTES);
        Self {
            open: vec![MathElement { name: "math".to_owned(), ..MathElement::default() }],
            source,
            ..Self::default()
        }
    }

    /// Begins an element. `attribute` returns the value of an attribute of it.
    pub(super) fn start_element(
        &mut self,
        name: &str,
        attribute: impl Fn(&str) -> Option<String>,
        opens: bool,
    ) {
        self.elements += 1;
        if !opens {
            if self.elements <= ELEMENTS_MAX
                && let Some(outer) = self.open.last_mut()
            {
                match name {
                    // An empty argument keeps its place.
                    "mspace" => outer.children.push(" ".to_owned()),
                    "mprescripts" => outer.children.push(PRESCRIPTS.to_owned()),
                    _ => outer.children.push(String::new()),
                }
            }
            return;
        }
        if self.open.len() >= DEPTH_MAX || self.elements > ELEMENTS_MAX {
            self.too_deep += 1;
            return;
        }
        let brackets = (name == "mfenced").then(|| {
            let of = |name: &str, usual: &str| attribute(name).unwrap_or_else(|| usual.to_owned());
            let separators = of("separators", ",");
            (of("open", "("), of("close", ")"), separators.trim().chars().take(1).collect())
        });
        let is_without_bar = name == "mfrac"
            && attribute("linethickness").is_some_and(|bar| {
                bar.trim_end_matches(char::is_alphabetic).trim_matches(['0', '.']).is_empty()
            });
        let is_accent = matches!(attribute("accent").as_deref(), Some("true"));
        self.open.push(MathElement {
            name: name.to_owned(),
            brackets,
            is_without_bar,
            is_accent,
            ..MathElement::default()
        });
    }

    /// Takes an event of XML. Returns the line of the equation if that was all of it.
    pub(super) fn read_event(&mut self, event: &Event<'_>) -> Option<String> {
        match event {
            Event::Start(element) | Event::Empty(element) => {
                let opens = matches!(event, Event::Start(_));
                self.start_element(
                    element.local_name().as_ref(),
                    |name| attribute_value(element, name),
                    opens,
                );
            }
            Event::End(element) => return self.end_element(element.local_name().as_ref()),
            _ => event_text(event).iter().for_each(|text| self.push_text(text)),
        }
        None
    }

    pub(super) fn push_text(&mut self, text: &str) {
        let Some(element) = self.open.last_mut() else { return };
        let room = TEXT_MAX_BYTES.saturating_sub(self.bytes);
        self.bytes += text.len();
        match element.name.as_str() {
            "annotation" => {
                push_within(&mut self.source, text, TEXT_MAX_BYTES);
            }
            "mi" | "mn" | "mo" | "mtext" | "ms" => {
                let max_bytes = element.text.len() + room;
                push_within(&mut element.text, text, max_bytes);
            }
            _ => {}
        }
    }

    /// Ends an element, including unclosed elements in it. Returns the line of the equation if that was all of it.
    pub(super) fn end_element(&mut self, name: &str) -> Option<String> {
        if self.too_deep > 0 && name != "math" {
            self.too_deep -= 1;
            return None;
        }
        let from = self.open.iter().rposition(|element| element.name == name)?;
        while self.open.len() > from {
            let Some(element) = self.open.pop() else { break };
            let is_hidden = matches!(element.name.as_str(), "annotation" | "annotation-xml" | "mphantom");
            let written = if is_hidden { String::new() } else { element.to_line() };
            match self.open.last_mut() {
                // Only the first child of several forms of the same is shown.
                Some(outer) if !is_hidden => outer.children.push(written),
                Some(_) => {}
                None => return Some(self.line_or_source(&written)),
            }
        }
        None
    }

    /// Ends an equation that is not closed.
    pub(super) fn finish_equation(mut self) -> String {
        self.end_element("math").unwrap_or_default()
    }

    fn line_or_source(&self, written: &str) -> String {
        if written.trim().is_empty() { self.source.trim().to_owned() } else { written.trim().to_owned() }
    }
}

/// The separator between the indexes behind and before a sign.
const PRESCRIPTS: &str = "\u{0}";

impl MathElement {
    /// Writes the element on one line.
    fn to_line(&self) -> String {
        let child = |at: usize| self.children.get(at).map_or("", |child| child.trim());
        let part = |name: &str, arguments: &[(&str, usize)]| {
            let arguments = arguments.iter().map(|(name, at)| ((*name).to_owned(), child(*at).to_owned()));
            EquationPart::of_arguments(name, arguments.collect())
        };
        match self.name.as_str() {
            "mi" | "mn" | "mo" | "mtext" | "ms" => self.token_text(),
            "mfrac" if self.is_without_bar => format!("({}¦{})", child(0), child(1)),
            "mfrac" => part("f", &[("num", 0), ("den", 1)]).to_line(),
            "msup" => part("sSup", &[("e", 0), ("sup", 1)]).to_line(),
            "msub" => part("sSub", &[("e", 0), ("sub", 1)]).to_line(),
            "msubsup" => part("sSubSup", &[("e", 0), ("sub", 1), ("sup", 2)]).to_line(),
            "munder" => self.write_limits(part("limLow", &[("e", 0), ("lim", 1)]), child(0), (child(1), "")),
            "mover" if self.is_mark() => {
                format!("{}{}", part("sSup", &[("e", 0)]).to_line(), combining_mark(child(1)))
            }
            "mover" => self.write_limits(part("limUpp", &[("e", 0), ("lim", 1)]), child(0), ("", child(1))),
            "munderover" => part("sSubSup", &[("e", 0), ("sub", 1), ("sup", 2)]).to_line(),
            "msqrt" => {
                let inside = join_parts(&self.children);
                EquationPart::of_arguments("rad", vec![("e".to_owned(), inside)]).to_line()
            }
            "mroot" => part("rad", &[("e", 0), ("deg", 1)]).to_line(),
            "mmultiscripts" => self.write_scripts(),
            "mtable" => format!("({})", self.children.join("; ")),
            "mtr" | "mlabeledtr" => {
                self.children.iter().map(|cell| cell.trim()).collect::<Vec<_>>().join(", ")
            }
            "semantics" => child(0).to_owned(),
            _ => match &self.brackets {
                Some((open, close, separator)) => {
                    let inside: Vec<&str> = self.children.iter().map(|child| child.trim()).collect();
                    format!("{open}{}{close}", inside.join(separator))
                }
                None => join_parts(&self.children),
            },
        }
    }

    /// Returns a number, a name or a sign without invisible characters.
    fn token_text(&self) -> String {
        let is_seen = |letter: &char| !matches!(letter, '\u{2061}'..='\u{2064}' | '\u{200b}');
        let text: String = self.text.chars().filter(is_seen).collect();
        let words: Vec<&str> = text.split_whitespace().collect();
        match self.name.as_str() {
            "mtext" | "ms" if !words.is_empty() => format!(" {} ", words.join(" ")),
            _ => words.join(" "),
        }
    }

    /// Returns true if the upper part is a mark on a letter.
    fn is_mark(&self) -> bool {
        let above = self.children.get(1).map_or("", |child| child.trim());
        let mark = combining_mark(above);
        self.is_accent && above.chars().count() == 1 || mark != above
    }

    /// Writes the parts below and above a sign or the name of a function.
    fn write_limits(&self, part: EquationPart, sign: &str, (below, above): (&str, &str)) -> String {
        // A brace says nothing.
        let is_brace = |text: &str| matches!(text, "⏞" | "⏟" | "︷" | "︸" | "_" | "\u{332}");
        if is_brace(below) || is_brace(above) { sign.to_owned() } else { part.to_line() }
    }

    /// Writes a sign with indexes behind and before it.
    fn write_scripts(&self) -> String {
        let Some((sign, indexes)) = self.children.split_first() else { return String::new() };
        let mut halves = indexes.split(|index| index == PRESCRIPTS);
        let written = |half: Option<&[String]>, e: &str| {
            let of = |from: usize| {
                let texts: Vec<&str> =
                    half.unwrap_or_default().iter().skip(from).step_by(2).map(|text| text.trim()).collect();
                texts.concat()
            };
            let arguments =
                vec![("e".to_owned(), e.to_owned()), ("sub".to_owned(), of(0)), ("sup".to_owned(), of(1))];
            EquationPart::of_arguments("sSubSup", arguments).to_line()
        };
        let behind = written(halves.next(), sign.trim());
        let before = written(halves.next(), "");
        if before.is_empty() { behind } else { format!("{before} {behind}") }
    }
}

/// Returns the mark that is written behind a letter for the one above it; other marks unchanged.
fn combining_mark(above: &str) -> &str {
    match above {
        "^" | "ˆ" | "\u{302}" => "\u{302}",
        "~" | "˜" | "\u{303}" => "\u{303}",
        "¯" | "‾" | "―" | "\u{305}" | "\u{304}" => "\u{305}",
        "˙" | "." | "\u{307}" => "\u{307}",
        "¨" | "\u{308}" => "\u{308}",
        "→" | "⃗" => "\u{20d7}",
        "ˇ" | "\u{30c}" => "\u{30c}",
        other => other,
    }
}

/// Joins adjacent parts. A space separates names of several letters from text that would continue them, and a sum from the part
/// after it.
fn join_parts(parts: &[String]) -> String {
    let mut line = String::new();
    let mut before = "";
    for part in parts.iter().map(String::as_str).filter(|part| !part.is_empty() && *part != PRESCRIPTS) {
        let is_name = |text: &str| text.chars().count() > 1 && text.chars().all(char::is_alphabetic);
        let touches = before.ends_with(char::is_alphanumeric) && part.starts_with(char::is_alphanumeric);
        let is_sum = before.starts_with(|letter| LARGE_SIGNS.contains(letter));
        let is_apart = is_sum || (touches && (is_name(before) || is_name(part)));
        if is_apart && !line.ends_with(' ') && !part.starts_with(' ') {
            line.push(' ');
        }
        line.push_str(match line.is_empty() || line.ends_with(' ') {
            true => part.trim_start(),
            false => part,
        });
        before = part;
    }
    line
}
