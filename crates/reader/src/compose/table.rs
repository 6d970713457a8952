//! Quotes rows of tables with the headings of their columns.

use std::ops::Range;

use super::{Quote, emphasize_escaped, escape_markdown};

/// The longest quote of rows with their headings, in bytes.
const QUOTE_MAX_BYTES: usize = 2400;

/// Appends a block quote: a row that answers below the headings of its columns, or a whole table.
pub(super) fn push_quote(out: &mut String, quote: &Quote<'_>) {
    let text = &quote.passage.text;
    let lines: Vec<(Range<usize>, &str)> = lines_with_ranges(text).collect();
    let (heads, rows) = lines.split_at(quote.head_lines.min(lines.len()));
    let is_whole = quote.ranges.contains(&(0..text.len()));
    let is_title = |line: &str| !line.trim().contains('\t');
    let titles = heads.iter().map(|(_, line)| *line).filter(|line| is_title(line));
    let names = heads.iter().map(|(_, line)| *line).filter(|line| !is_title(line));
    let mut quoted: Vec<(&str, bool)> = titles.chain(names).map(|head| (head.trim_end(), false)).collect();
    for (range, row) in rows {
        let is_best = range.contains(&quote.best.start) && !quote.best.is_empty();
        if is_whole || is_best {
            quoted.push((row, is_best));
        }
    }
    let is_longer = quoted.len() > 1;
    let mut left = QUOTE_MAX_BYTES;
    let mut started = false;
    for (line, is_best) in &quoted {
        // Empty cells stay: they keep the others below their headings.
        let line = line.trim_end();
        let fitting = &line[..line.floor_char_boundary(left.min(line.len()))];
        left -= fitting.len();
        out.push_str(if started { "  \n> " } else { "> " });
        let escaped = escape_markdown(fitting);
        out.push_str(&if *is_best && is_longer { emphasize_escaped(&escaped) } else { escaped });
        if fitting.len() < line.len() {
            out.push_str(" …");
            return;
        }
        started = true;
    }
}

/// Returns the lines of a text with their places.
fn lines_with_ranges(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    let mut at = 0;
    text.split('\n').map(move |line| {
        let range = at..at + line.len();
        at += line.len() + 1;
        (range, line)
    })
}

#[cfg(test)]
mod tests {
    use domain::citation::{NumberedPassage, PassagePlace};

    use super::*;

    fn sample_passage(text: &str) -> NumberedPassage {
        let place = PassagePlace::File {
            path: "/a.xlsx".to_owned(),
            page: Some(1),
            lines: Some((3, 4)),
            page_name: None,
        };
        NumberedPassage { number: 1, place, text: text.to_owned() }
    }

    fn render_quote(text: &str, head_lines: usize, best: &str, is_whole: bool) -> String {
        let passage = sample_passage(text);
        let at = text.find(best).expect("the row is there");
        let best = at..at + best.len();
        let range = if is_whole { 0..text.len() } else { best.clone() };
        let mut out = String::new();
        push_quote(&mut out, &Quote { passage: &passage, head_lines, ranges: vec![range], best });
        out
    }

    #[test]
    fn row_quoted_below_title_and_headings() {
        let text = "Births\nRegion\t2019\t2020\n\tBoys\tBoys\nNorth\t1.5\t1.7\nSouth\t2\t3";
        assert_eq!(
            render_quote(text, 3, "South\t2\t3", false),
            "> Births  \n> Region \\| 2019 \\| 2020  \n>  \\| Boys \\| Boys  \n> **South \\| 2 \\| 3**"
        );
    }

    #[test]
    fn row_without_first_cell_stays_bold() {
        let text = "Subject\tBook\tPages\n\tPhilosophy\t5\t\n\tLogic\t7\t";
        assert_eq!(
            render_quote(text, 1, "Philosophy\t5", false),
            "> Subject \\| Book \\| Pages  \n> **\\| Philosophy \\| 5**"
        );
        let long = format!("Subject\tText\nLogic\t{} {}", "x".repeat(QUOTE_MAX_BYTES - 19), "y".repeat(90));
        let quote = render_quote(&long, 1, long.lines().nth(1).expect("a row"), false);
        assert!(quote.ends_with("x** …"), "{quote}");
    }

    #[test]
    fn whole_table_keeps_headings() {
        let text = "Region\tBoys\nNorth\t15\nSouth\t20";
        assert_eq!(
            render_quote(text, 1, "South\t20", true),
            "> Region \\| Boys  \n> North \\| 15  \n> **South \\| 20**"
        );
        assert_eq!(render_quote(text, 1, "South\t20", false), "> Region \\| Boys  \n> **South \\| 20**");
    }
}
