//! The commands of TeX that take arguments.

use super::letters::Alphabet;
use super::symbols::{command_delimiter, find_delimiter};
use super::{
    Atom, AtomKind, Formula, Parser, UnsupportedTex, fence_element, find_symbol, space_element, symbol_atom,
    text_element,
};

/// Returns the accent of a command, and whether it is as wide as its base.
fn find_accent(name: &str) -> Option<(&'static str, bool)> {
    Some(match name {
        "hat" => ("ˆ", false),
        "widehat" => ("ˆ", true),
        "bar" => ("¯", false),
        "overline" | "overbar" => ("¯", true),
        "tilde" => ("˜", false),
        "widetilde" => ("˜", true),
        "vec" => ("→", false),
        "overrightarrow" => ("→", true),
        "overleftarrow" => ("←", true),
        "overleftrightarrow" => ("↔", true),
        "dot" => ("˙", false),
        "ddot" => ("¨", false),
        "dddot" => ("\u{20db}", false),
        "check" => ("ˇ", false),
        "breve" => ("˘", false),
        "acute" => ("´", false),
        "grave" => ("`", false),
        "mathring" => ("˚", false),
        "overbrace" => ("⏞", true),
        _ => return None,
    })
}

/// Returns the arrow of a command that takes a text above it.
fn long_arrow(name: &str) -> Option<&'static str> {
    Some(match name {
        "xrightarrow" => "→",
        "xleftarrow" => "←",
        "xleftrightarrow" => "↔",
        "xRightarrow" => "⇒",
        "xLeftarrow" => "⇐",
        "xmapsto" => "↦",
        "xrightleftharpoons" => "⇌",
        _ => return None,
    })
}

/// Returns the size of a bracket's command, and the form in which the bracket is set.
fn bracket_size(name: &str) -> Option<(&'static str, &'static str)> {
    let (name, form) = match name.strip_suffix(['l', 'r', 'm']) {
        Some(plain) if name.ends_with('l') => (plain, "prefix"),
        Some(plain) if name.ends_with('r') => (plain, "postfix"),
        Some(plain) => (plain, "infix"),
        None => (name, "prefix"),
    };
    let size = match name {
        "big" => "1.2em",
        "Big" => "1.8em",
        "bigg" => "2.4em",
        "Bigg" => "3em",
        _ => return None,
    };
    Some((size, form))
}

impl<'t> Parser<'t> {
    /// Reads an element that begins with an already taken command.
    pub(super) fn command_atom(&mut self, name: &'t str) -> Result<Atom, UnsupportedTex> {
        if name.starts_with(char::is_whitespace) {
            return Ok(Atom::new_ordinary(space_element("0.25em")));
        }
        if let Some(symbol) = find_symbol(name) {
            return Ok(symbol_atom(symbol, self.alphabet));
        }
        if let Some(alphabet) = Alphabet::from_command(name).filter(|_| !name.starts_with("text")) {
            return self.read_letters(alphabet).map(Atom::new_ordinary);
        }
        if let Some((accent, is_wide)) = find_accent(name) {
            let base = self.read_argument()?;
            let html =
                format!("<mover accent=\"true\">{base}<mo stretchy=\"{is_wide}\">{accent}</mo></mover>");
            let kind = if name == "overbrace" { AtomKind::Limits } else { AtomKind::Ordinary };
            return Ok(Atom { html, kind });
        }
        if let Some(arrow) = long_arrow(name) {
            return self.long_arrow(arrow);
        }
        if let Some((size, form)) = bracket_size(name) {
            let bracket = self.take_delimiter()?;
            let html =
                stretchy_fence(bracket, &format!("form=\"{form}\" minsize=\"{size}\" maxsize=\"{size}\""));
            let kind = if form == "postfix" { AtomKind::Ordinary } else { AtomKind::Operator };
            return Ok(Atom { html, kind });
        }
        match name {
            "operatorname" | "mathop" => self.operator_name(),
            "not" => self.read_negation(),
            "mathbin" | "mathrel" => Ok(Atom { html: self.read_argument()?, kind: AtomKind::Operator }),
            "underbrace" | "overset" | "stackrel" | "underset" => self.read_stack(name),
            "bmod" | "mod" => Ok(Atom {
                html: "<mo lspace=\"0.2222em\" rspace=\"0.2222em\">mod</mo>".to_owned(),
                kind: AtomKind::Operator,
            }),
            _ => self.read_ordinary(name).map(Atom::new_ordinary),
        }
    }

    /// Reads the arguments of a command that makes an ordinary element.
    fn read_ordinary(&mut self, name: &str) -> Formula {
        match name {
            "frac" => self.read_fraction(""),
            "dfrac" | "cfrac" => self.read_fraction(" displaystyle=\"true\""),
            "tfrac" => self.read_fraction(" displaystyle=\"false\""),
            "binom" | "dbinom" | "tbinom" => {
                let fraction = self.read_fraction(" linethickness=\"0\"")?;
                Ok(format!("<mrow><mo>(</mo>{fraction}<mo>)</mo></mrow>"))
            }
            "sqrt" => match self.optional_argument() {
                Some(index) => {
                    let index = self.read_part(index)?;
                    Ok(format!("<mroot>{}<mrow>{index}</mrow></mroot>", self.read_argument()?))
                }
                None => Ok(format!("<msqrt>{}</msqrt>", self.read_argument()?)),
            },
            "left" => self.read_fence_group(),
            "begin" => self.read_environment(),
            "substack" => {
                let raw = self.raw_argument()?;
                Ok(format!("<mrow>{}</mrow>", self.read_part(raw)?))
            }
            "text" | "textrm" | "textbf" | "textit" | "textsf" | "texttt" | "textnormal" | "textup"
            | "mbox" | "hbox" => self.read_text(name),
            "boxed" | "fbox" => self.read_class_row("boxed"),
            "cancel" | "bcancel" | "xcancel" | "sout" => self.read_class_row("cancelled"),
            "phantom" | "hphantom" | "vphantom" => {
                Ok(format!("<mphantom>{}</mphantom>", self.read_argument()?))
            }
            "underline" | "underbar" => {
                Ok(format!("<munder>{}<mo stretchy=\"true\">_</mo></munder>", self.read_argument()?))
            }
            "mathord" | "mathopen" | "mathclose" | "mathpunct" | "mathinner" | "smash" | "ensuremath" => {
                self.read_argument()
            }
            "pmod" => {
                let (open, close) = (fence_element("("), fence_element(")"));
                let modulus = self.read_argument()?;
                Ok(format!(
                    "<mrow>{}{open}<mi>mod</mi>{}{modulus}{close}</mrow>",
                    space_element("1em"),
                    space_element("0.3333em")
                ))
            }
            "tag" => {
                let is_bare = self.take_token("*");
                let tag = self.raw_argument()?;
                let tag = if is_bare { tag.to_owned() } else { format!("({tag})") };
                Ok(format!("<mrow>{}{}</mrow>", space_element("2em"), text_element("mtext", &tag)))
            }
            "label" => self.raw_argument().map(|_| String::new()),
            // Colours of a text that may be dark or light are left out.
            "color" => {
                self.raw_argument()?;
                Ok(String::new())
            }
            "textcolor" | "colorbox" => {
                self.raw_argument()?;
                self.read_argument()
            }
            "hspace" | "mspace" => self.raw_argument().map(|_| space_element("1em")),
            _ => Err(UnsupportedTex),
        }
    }

    fn read_fraction(&mut self, attributes: &str) -> Formula {
        let above = self.read_argument()?;
        let below = self.read_argument()?;
        Ok(format!("<mfrac{attributes}>{above}{below}</mfrac>"))
    }

    fn read_class_row(&mut self, class: &str) -> Formula {
        Ok(format!("<mrow class=\"{class}\">{}</mrow>", self.read_argument()?))
    }

    /// Reads the letters of a command such as `\mathrm`. Several upright ones are one name.
    fn read_letters(&mut self, alphabet: Alphabet) -> Formula {
        if alphabet == Alphabet::Upright && self.rest.starts_with('{') {
            let from = self.rest;
            let name = self.raw_argument()?;
            if name.chars().count() > 1 && name.chars().all(char::is_alphabetic) {
                return Ok(text_element("mi", name));
            }
            self.rest = from;
        }
        self.argument_in(alphabet)
    }

    /// Reads the name of an operator.
    fn operator_name(&mut self) -> Result<Atom, UnsupportedTex> {
        let has_limits = self.take_token("*");
        let name = self.raw_argument()?;
        let name = ["\\,", "\\;", "\\ ", "~"]
            .iter()
            .fold(name.to_owned(), |name, space| name.replace(space, "\u{a0}"));
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '\u{a0}' | '-' | '.');
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(UnsupportedTex);
        }
        Ok(if has_limits {
            let html =
                format!("<mo movablelimits=\"true\" lspace=\"0.1667em\" rspace=\"0.1667em\">{name}</mo>");
            Atom { html, kind: AtomKind::Limits }
        } else {
            // A single letter would be italic.
            Atom { html: format!("<mi mathvariant=\"normal\">{name}</mi>"), kind: AtomKind::Function }
        })
    }

    /// Reads an operator, and strikes it through.
    fn read_negation(&mut self) -> Result<Atom, UnsupportedTex> {
        self.skip_spaces();
        let atom = self.read_atom()?;
        let text = atom.html.strip_suffix("</mo>").ok_or(UnsupportedTex)?;
        Ok(Atom { html: format!("{text}\u{338}</mo>"), kind: atom.kind })
    }

    /// Reads something with a text or a brace above or below it.
    fn read_stack(&mut self, name: &str) -> Result<Atom, UnsupportedTex> {
        let first = self.read_argument()?;
        let html = match name {
            "underbrace" => format!("<munder>{first}<mo stretchy=\"true\">⏟</mo></munder>"),
            "underset" => format!("<munder>{}{first}</munder>", self.read_argument()?),
            _ => format!("<mover>{}{first}</mover>", self.read_argument()?),
        };
        let kind = if name == "underbrace" { AtomKind::Limits } else { AtomKind::Operator };
        Ok(Atom { html, kind })
    }

    fn long_arrow(&mut self, arrow: &str) -> Result<Atom, UnsupportedTex> {
        let margin = space_element("0.4em");
        let below = match self.optional_argument() {
            Some(below) => Some(self.read_part(below)?),
            None => None,
        };
        let above = self.read_argument()?;
        let above = format!("<mrow>{margin}{above}{margin}</mrow>");
        let arrow = format!("<mo stretchy=\"true\">{arrow}</mo>");
        let html = match below {
            Some(below) => {
                format!("<munderover>{arrow}<mrow>{margin}{below}{margin}</mrow>{above}</munderover>")
            }
            None => format!("<mover>{arrow}{above}</mover>"),
        };
        Ok(Atom { html, kind: AtomKind::Operator })
    }

    /// Reads the content between `\left` and `\right`, with its brackets.
    fn read_fence_group(&mut self) -> Formula {
        let mut out = format!("<mrow>{}", stretchy_fence(self.take_delimiter()?, "form=\"prefix\""));
        loop {
            out.push_str(&self.read_row()?);
            if self.take_token("\\middle") {
                out.push_str(&stretchy_fence(
                    self.take_delimiter()?,
                    "form=\"infix\" lspace=\"0.1667em\" rspace=\"0.1667em\"",
                ));
            } else {
                self.expect_token("\\right")?;
                out.push_str(&stretchy_fence(self.take_delimiter()?, "form=\"postfix\""));
                out.push_str("</mrow>");
                return Ok(out);
            }
        }
    }

    /// Takes a bracket: a character or a command. An empty one for `.`.
    fn take_delimiter(&mut self) -> Result<&'static str, UnsupportedTex> {
        self.skip_spaces();
        if self.rest.starts_with('\\') {
            return command_delimiter(self.take_command()).ok_or(UnsupportedTex);
        }
        let first = self.rest.chars().next().ok_or(UnsupportedTex)?;
        find_delimiter(self.take_bytes(first.len_utf8())).ok_or(UnsupportedTex)
    }

    /// Reads text, which may contain formulas between dollar signs.
    fn read_text(&mut self, command: &str) -> Formula {
        let raw = self.raw_argument()?;
        let mut out = String::new();
        // A dollar sign that is text is escaped.
        let pieces = if raw.contains("\\$") { vec![raw] } else { raw.split('$').collect() };
        for (at, piece) in pieces.into_iter().enumerate() {
            if at % 2 == 1 {
                out.push_str(&self.read_part(piece)?);
            } else if !piece.is_empty() {
                out.push_str(&text_element("mtext", &plain_text(piece, Alphabet::from_command(command))?));
            }
        }
        Ok(format!("<mrow>{out}</mrow>"))
    }
}

/// Returns text without the signs of TeX.
fn plain_text(raw: &str, alphabet: Option<Alphabet>) -> Result<String, UnsupportedTex> {
    let mut out = String::new();
    let mut characters = raw.chars();
    while let Some(character) = characters.next() {
        let shown = match character {
            '\\' => match characters.next() {
                Some(escaped) if !escaped.is_alphabetic() => escaped,
                _ => return Err(UnsupportedTex),
            },
            '{' | '}' => continue,
            '~' => ' ',
            other => other,
        };
        // Spaces at the ends of an element would be left out.
        let shown = if shown.is_whitespace() { '\u{a0}' } else { shown };
        out.push(alphabet.map_or(shown, |alphabet| alphabet.of_character(shown)));
    }
    Ok(out)
}

fn stretchy_fence(bracket: &str, attributes: &str) -> String {
    if bracket.is_empty() {
        return String::new();
    }
    format!("<mo stretchy=\"true\" symmetric=\"true\" {attributes}>{bracket}</mo>")
}
