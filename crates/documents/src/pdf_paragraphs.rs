//! Assembles the lines of a page of a PDF into paragraphs and rows of tables.

use unicode_normalization::UnicodeNormalization;

use super::clause;

/// A line step larger than the usual one by this factor separates paragraphs.
const PARAGRAPH_STEP: f64 = 1.3;

/// A line of text as drawn. Its coordinates are along and across its direction.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PdfLine {
    pub(super) left: f64,
    pub(super) right: f64,
    /// The distance from the upper edge of the page.
    pub(super) y: f64,
    pub(super) size: f64,
    /// The direction in degrees; 0 is to the right.
    pub(super) angle: i32,
    pub(super) text: String,
}

/// The relation between two consecutive lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joint {
    /// The line was wrapped: the sentence continues.
    Wrap,
    /// Both are rows of a table.
    Row,
    /// A new paragraph begins.
    Paragraph,
}

/// Returns the page's text: one line per paragraph or row, paragraphs separated by blank lines.
pub(super) fn assemble_paragraphs(lines: &[PdfLine]) -> String {
    let mut lines: Vec<PdfLine> = lines
        .iter()
        .map(|line| PdfLine { text: tidy_text(&line.text), ..line.clone() })
        .filter(|line| !line.text.is_empty())
        .collect();
    // The page number is not part of the text.
    if ends_with_page_number(&lines) {
        lines.pop();
    }
    let layout = Layout::from_lines(&lines);
    let mut out = String::new();
    let mut before: Option<&PdfLine> = None;
    for line in &lines {
        match before.map(|before| layout.joint_between(before, line)) {
            None => {}
            Some(Joint::Paragraph) => out.push_str("\n\n"),
            Some(Joint::Row) => out.push('\n'),
            Some(Joint::Wrap) => {
                let split = out.ends_with('-')
                    && out.trim_end_matches('-').ends_with(char::is_alphabetic)
                    && line.text.starts_with(char::is_lowercase);
                if split {
                    out.pop();
                } else {
                    out.push(' ');
                }
            }
        }
        out.push_str(&line.text);
        before = Some(line);
    }
    out
}

/// Returns true if the line that was drawn last looks like a page number above or below all others.
fn ends_with_page_number(lines: &[PdfLine]) -> bool {
    let Some((last, others)) = lines.split_last() else { return false };
    let distances = || others.iter().filter(|line| line.angle == last.angle).map(|line| line.y - last.y);
    let gap = 0.5 * last.size;
    looks_like_page_number(&last.text)
        && distances().next().is_some()
        && (distances().all(|distance| distance > gap) || distances().all(|distance| distance < -gap))
}

/// Returns true for up to four digits, also between dashes.
fn looks_like_page_number(text: &str) -> bool {
    let inner = text.trim_matches(['-', '–', '—', ' ']);
    !inner.is_empty() && inner.len() <= 4 && inner.chars().all(|c| c.is_ascii_digit())
}

/// Composes letters, collapses spaces, and trims spaces around tabs and at the ends.
fn tidy_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.trim().nfc() {
        match c {
            ' ' if out.ends_with([' ', '\t']) => {}
            '\t' => {
                out.truncate(out.trim_end_matches([' ', '\t']).len());
                out.push('\t');
            }
            _ => out.push(c),
        }
    }
    out
}

/// The layout of a page, by which paragraphs are separated.
struct Layout {
    left: f64,
    width: f64,
    /// The usual distance between lines, in font sizes.
    step: f64,
}

impl Layout {
    fn from_lines(lines: &[PdfLine]) -> Self {
        let left = lines.iter().map(|line| line.left).fold(f64::INFINITY, f64::min);
        let right = lines.iter().map(|line| line.right).fold(f64::NEG_INFINITY, f64::max);
        let mut steps: Vec<f64> = lines
            .windows(2)
            .map(|pair| (pair[1].y - pair[0].y) / pair[1].size.max(1.0))
            .filter(|step| (0.5..2.5).contains(step))
            .collect();
        steps.sort_by(f64::total_cmp);
        // A quantile below the median: pages of many short paragraphs have more wide steps than narrow ones.
        let step = steps.get(steps.len() / 3).copied().unwrap_or(1.2);
        Self { left, width: (right - left).max(1.0), step }
    }

    fn joint_between(&self, before: &PdfLine, line: &PdfLine) -> Joint {
        let step = (line.y - before.y) / line.size.max(1.0);
        if before.text.contains('\t') || line.text.contains('\t') {
            let same_table =
                before.text.contains('\t') && line.text.contains('\t') && step > 0.0 && step < 3.0;
            return if same_table { Joint::Row } else { Joint::Paragraph };
        }
        let ends = before.text.ends_with(['.', ':', ';', '!', '?']);
        let lower = line.text.starts_with(char::is_lowercase);
        if step < 0.0 {
            // The text jumps up: another column, in which a sentence may continue.
            return if lower && !ends { Joint::Wrap } else { Joint::Paragraph };
        }
        if step > self.step * PARAGRAPH_STEP || (line.size / before.size - 1.0).abs() > 0.12 {
            return Joint::Paragraph;
        }
        if lower && !ends {
            return Joint::Wrap;
        }
        let short = before.right < self.left + 0.85 * self.width;
        let very_short = before.right < self.left + 0.6 * self.width;
        let indented = line.left > before.left + 0.8 * line.size;
        let starts = clause::detect_clause_start(&line.text).is_some() && (ends || short);
        if starts || (ends && (short || indented)) || very_short {
            return Joint::Paragraph;
        }
        if matches!(clause::detect_clause_start(&before.text), Some(clause::Start::Section(heading)) if heading == before.text)
        {
            return Joint::Paragraph;
        }
        Joint::Wrap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pdf_line(left: f64, right: f64, y: f64, text: &str) -> PdfLine {
        PdfLine { left, right, y, size: 10.0, angle: 0, text: text.to_owned() }
    }

    #[test]
    fn lines_become_paragraphs() {
        let page = [
            pdf_line(50.0, 200.0, 20.0, "Čl. 3 Nájemné"),
            pdf_line(50.0, 500.0, 32.0, "Nájemné činí 15 000 Kč a je splatné do pátého dne kalen-"),
            pdf_line(50.0, 480.0, 44.0, "dářního měsíce. Podle dohody smluvních stran podle"),
            pdf_line(50.0, 300.0, 56.0, "§ 12 se platí předem."),
            pdf_line(50.0, 490.0, 68.0, "Kauce činí trojnásobek nájemného a skládá se při podpisu této"),
            pdf_line(50.0, 120.0, 80.0, "smlouvy."),
            pdf_line(50.0, 300.0, 110.0, "Byt\tCena"),
            pdf_line(50.0, 300.0, 122.0, "A\t1 000"),
            pdf_line(280.0, 300.0, 800.0, "– 12 –"),
        ];
        assert_eq!(
            assemble_paragraphs(&page),
            "Čl. 3 Nájemné\n\nNájemné činí 15 000 Kč a je splatné do pátého dne kalendářního měsíce. Podle dohody \
             smluvních stran podle § 12 se platí předem.\n\nKauce činí trojnásobek nájemného a skládá se při podpisu \
             této smlouvy.\n\nByt\tCena\nA\t1 000"
        );
    }

    #[test]
    fn marks_that_come_apart_are_composed() {
        assert_eq!(tidy_text("  vy\u{301}pove\u{30c}d\u{30c}   z \t  x "), "výpověď z\tx");
    }

    #[test]
    fn page_number_only_outside_lines() {
        let form = |last: PdfLine| {
            let lines =
                [pdf_line(50.0, 150.0, 20.0, "Rent"), pdf_line(50.0, 150.0, 60.0, "Months of notice"), last];
            assemble_paragraphs(&lines)
        };
        for (y, text) in [(20.0, "950"), (40.0, "2024"), (61.0, "12")] {
            assert!(form(pdf_line(200.0, 230.0, y, text)).ends_with(text), "{text} is a value of the form");
        }
        for y in [5.0, 90.0] {
            assert!(!form(pdf_line(200.0, 230.0, y, "12")).contains("12"), "{y}");
        }
        assert!(form(pdf_line(200.0, 230.0, 90.0, "12345")).ends_with("12345"));
    }
}
