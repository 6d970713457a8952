//! Environments: matrices, cases and aligned equations, each a table.

use super::{Formula, Parser, Refused};

/// The way in which an environment is set.
struct Environment {
    open: &'static str,
    close: &'static str,
    /// The class of the table, by which the style sheet aligns its columns.
    class: &'static str,
}

impl Environment {
    fn of(name: &str) -> Option<Self> {
        let (open, close, class) = match name.strip_suffix('*').unwrap_or(name) {
            "matrix" | "smallmatrix" | "array" | "subarray" => ("", "", "matrix"),
            "pmatrix" => ("(", ")", "matrix"),
            "bmatrix" => ("[", "]", "matrix"),
            "Bmatrix" => ("{", "}", "matrix"),
            "vmatrix" => ("|", "|", "matrix"),
            "Vmatrix" => ("‖", "‖", "matrix"),
            "cases" | "dcases" => ("{", "", "cases"),
            "rcases" => ("", "}", "cases"),
            "align" | "aligned" | "alignat" | "alignedat" | "split" | "eqnarray" | "flalign" => {
                ("", "", "aligned")
            }
            "gather" | "gathered" | "equation" | "multline" | "math" | "displaymath" => ("", "", "gathered"),
            _ => return None,
        };
        Some(Self { open, close, class })
    }
}

impl Parser<'_> {
    /// Reads an environment after `\begin`.
    pub(super) fn environment(&mut self) -> Formula {
        let name = self.raw_argument()?;
        let environment = Environment::of(name).ok_or(Refused)?;
        let columns = match name.strip_suffix('*').unwrap_or(name) {
            "array" | "subarray" => self.raw_argument()?,
            "alignat" | "alignedat" => {
                self.raw_argument()?;
                ""
            }
            _ => "",
        };
        self.optional_argument();
        let columns = Column::all(columns);
        let mut out = format!("<mtable class=\"{}\">", environment.class);
        loop {
            let is_ruled = self.takes_rules();
            if self.takes_end(name)? {
                break;
            }
            out.push_str(if is_ruled { "<mtr class=\"ruled\">" } else { "<mtr>" });
            for column in 0.. {
                let cell = self.row()?;
                out.push_str(columns.get(column).map_or("<mtd>", Column::start));
                out.push_str(&cell);
                out.push_str("</mtd>");
                if !self.takes("&") {
                    break;
                }
            }
            out.push_str("</mtr>");
            if !self.takes_line_end() && !self.stands_at_end() {
                return Err(Refused);
            }
        }
        out.push_str("</mtable>");
        let fence = |fence: &str| if fence.is_empty() { String::new() } else { format!("<mo>{fence}</mo>") };
        Ok(format!("<mrow>{}{out}{}</mrow>", fence(environment.open), fence(environment.close)))
    }

    /// Reads the rows of a formula that has several without an environment.
    pub(super) fn lines(&mut self, first: String) -> Formula {
        let mut out = format!("<mtable class=\"gathered\"><mtr><mtd>{first}</mtd></mtr>");
        while self.takes_line_end() {
            let line = self.row()?;
            out.push_str(&format!("<mtr><mtd>{line}</mtd></mtr>"));
        }
        out.push_str("</mtable>");
        Ok(out)
    }

    /// Takes the end of a row, with the distance to the next one.
    fn takes_line_end(&mut self) -> bool {
        if !self.takes("\\\\") && !self.takes("\\cr") {
            return false;
        }
        self.takes("*");
        self.optional_argument();
        true
    }

    /// Takes the rules above a row.
    fn takes_rules(&mut self) -> bool {
        let mut is_ruled = false;
        while self.takes("\\hline")
            || self.takes("\\midrule")
            || self.takes("\\toprule")
            || self.takes("\\bottomrule")
        {
            is_ruled = true;
        }
        is_ruled
    }

    fn stands_at_end(&mut self) -> bool {
        self.skip_spaces();
        self.rest.starts_with("\\end")
    }

    /// Takes the end of the environment, if it stands here.
    fn takes_end(&mut self, name: &str) -> Result<bool, Refused> {
        if !self.takes("\\end") {
            return if self.rest.is_empty() { Err(Refused) } else { Ok(false) };
        }
        if self.raw_argument()? == name { Ok(true) } else { Err(Refused) }
    }
}

/// A column of an array.
#[derive(Clone, Copy)]
struct Column {
    alignment: char,
    /// True if a line stands before it.
    is_ruled: bool,
}

impl Column {
    fn all(specification: &str) -> Vec<Self> {
        let mut columns = Vec::new();
        let mut is_ruled = false;
        for character in specification.chars() {
            match character {
                '|' => is_ruled = true,
                'l' | 'c' | 'r' => {
                    columns.push(Self { alignment: character, is_ruled: std::mem::take(&mut is_ruled) })
                }
                _ => {}
            }
        }
        columns
    }

    fn start(&self) -> &'static str {
        match (self.alignment, self.is_ruled) {
            ('l', false) => "<mtd class=\"left\">",
            ('l', true) => "<mtd class=\"left barred\">",
            ('r', false) => "<mtd class=\"right\">",
            ('r', true) => "<mtd class=\"right barred\">",
            (_, true) => "<mtd class=\"barred\">",
            (_, false) => "<mtd>",
        }
    }
}
