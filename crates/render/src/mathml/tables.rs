//! Environments: matrices, cases and aligned equations, each a table.

use super::{Formula, Parser, UnsupportedTex};

/// The way in which an environment is set.
struct TexEnvironment {
    open: &'static str,
    close: &'static str,
    /// The class of the table, by which the style sheet aligns its columns.
    class: &'static str,
}

impl TexEnvironment {
    fn from_name(name: &str) -> Option<Self> {
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
    pub(super) fn read_environment(&mut self) -> Formula {
        let name = self.raw_argument()?;
        let environment = TexEnvironment::from_name(name).ok_or(UnsupportedTex)?;
        let columns = match name.strip_suffix('*').unwrap_or(name) {
            "array" | "subarray" => self.raw_argument()?,
            "alignat" | "alignedat" => {
                self.raw_argument()?;
                ""
            }
            _ => "",
        };
        self.optional_argument();
        let columns = ArrayColumn::parse_columns(columns);
        let mut out = format!("<mtable class=\"{}\">", environment.class);
        loop {
            let is_ruled = self.takes_rules();
            if self.takes_end(name)? {
                break;
            }
            out.push_str(if is_ruled { "<mtr class=\"ruled\">" } else { "<mtr>" });
            for column in 0.. {
                let cell = self.read_row()?;
                out.push_str(columns.get(column).map_or("<mtd>", ArrayColumn::start_tag));
                out.push_str(&cell);
                out.push_str("</mtd>");
                if !self.take_token("&") {
                    break;
                }
            }
            out.push_str("</mtr>");
            if !self.takes_line_end() && !self.stands_at_end() {
                return Err(UnsupportedTex);
            }
        }
        out.push_str("</mtable>");
        let fence = |fence: &str| if fence.is_empty() { String::new() } else { format!("<mo>{fence}</mo>") };
        Ok(format!("<mrow>{}{out}{}</mrow>", fence(environment.open), fence(environment.close)))
    }

    /// Reads the rows of a formula that has several without an environment.
    pub(super) fn read_lines(&mut self, first: String) -> Formula {
        let mut out = format!("<mtable class=\"gathered\"><mtr><mtd>{first}</mtd></mtr>");
        while self.takes_line_end() {
            let line = self.read_row()?;
            out.push_str(&format!("<mtr><mtd>{line}</mtd></mtr>"));
        }
        out.push_str("</mtable>");
        Ok(out)
    }

    /// Takes the end of a row, with the distance to the next one.
    fn takes_line_end(&mut self) -> bool {
        if !self.take_token("\\\\") && !self.take_token("\\cr") {
            return false;
        }
        self.take_token("*");
        self.optional_argument();
        true
    }

    /// Takes the rules above a row.
    fn takes_rules(&mut self) -> bool {
        let mut is_ruled = false;
        while self.take_token("\\hline")
            || self.take_token("\\midrule")
            || self.take_token("\\toprule")
            || self.take_token("\\bottomrule")
        {
            is_ruled = true;
        }
        is_ruled
    }

    fn stands_at_end(&mut self) -> bool {
        self.skip_spaces();
        self.rest.starts_with("\\end")
    }

    /// Takes the end of the environment, if it follows.
    fn takes_end(&mut self, name: &str) -> Result<bool, UnsupportedTex> {
        if !self.take_token("\\end") {
            return if self.rest.is_empty() { Err(UnsupportedTex) } else { Ok(false) };
        }
        if self.raw_argument()? == name { Ok(true) } else { Err(UnsupportedTex) }
    }
}

/// A column of an array.
#[derive(Clone, Copy)]
struct ArrayColumn {
    alignment: char,
    /// True if a line precedes it.
    is_ruled: bool,
}

impl ArrayColumn {
    fn parse_columns(specification: &str) -> Vec<Self> {
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

    fn start_tag(&self) -> &'static str {
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
