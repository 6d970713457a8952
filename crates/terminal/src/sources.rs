//! The sources of an answer on a terminal.

use client::{ChatAnswerPart, CitedSource};
use domain::citation::PageKind;

use crate::labels::{Label, LabelLanguage};

/// Lists the sources that an answer cites, by the numbers of their marks.
pub(crate) fn list_cited_sources(parts: &[ChatAnswerPart], language: LabelLanguage) -> Vec<(u32, String)> {
    let mut out: Vec<(u32, String)> = Vec::new();
    for citation in parts.iter().flat_map(|part| &part.citations) {
        let number = citation.citation_id.trim_start_matches('c').parse().unwrap_or(0);
        if out.iter().any(|(known, _)| *known == number) {
            continue;
        }
        let mut place = describe_place(&citation.source, language);
        if citation.verified == Some(false) {
            let reason = citation.reason.as_deref().unwrap_or(language.label(Label::NotSaid));
            place.push_str(&format!(" ({}: {reason})", language.label(Label::NotProven)));
        }
        out.push((number, place));
    }
    out.sort_by_key(|(number, _)| *number);
    out
}

fn describe_place(source: &CitedSource, language: LabelLanguage) -> String {
    let what = source.path.as_deref().or(source.url.as_deref()).unwrap_or(&source.kind);
    match (source.page, source.lines, source.title.as_deref()) {
        (Some(page), lines, _) => {
            let page = (page, source.page_name.as_deref());
            format!("{what}, {}", page_in_words(what, page, lines, language))
        }
        (None, Some(lines), _) => {
            format!("{what}, {}", format_range([Label::Line, Label::Lines], lines, language))
        }
        (None, None, Some(title)) => format!("{title} <{what}>"),
        (None, None, None) => what.to_owned(),
    }
}

/// Names lines or rows: `lines 4–9`.
fn format_range([one, many]: [Label; 2], (first, last): (u32, u32), language: LabelLanguage) -> String {
    if first == last {
        format!("{} {first}", language.label(one))
    } else {
        format!("{} {first}–{last}", language.label(many))
    }
}

/// Names a page as its kind of file has it, with the rows of a sheet and the lines of a file in an archive.
fn page_in_words(
    path: &str,
    (page, name): (u32, Option<&str>),
    lines: Option<(u32, u32)>,
    language: LabelLanguage,
) -> String {
    let number = page.to_string();
    let named = |label: Label| format!("{} {page}", language.label(label));
    let (place, line) = match PageKind::from_path(path) {
        PageKind::Sheet => (
            format!("{} {}", language.label(Label::Sheet), name.unwrap_or(&number)),
            [Label::Row, Label::Rows],
        ),
        PageKind::File => {
            (name.map_or_else(|| named(Label::File), str::to_owned), [Label::Line, Label::Lines])
        }
        PageKind::Slide => return named(Label::Slide),
        PageKind::Section => return named(Label::Section),
        PageKind::Page => {
            let page = named(Label::Page);
            return name.map_or_else(|| page.clone(), |attached| format!("{page}, {attached}"));
        }
    };
    lines.map_or_else(|| place.clone(), |lines| format!("{place}, {}", format_range(line, lines, language)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::marks::tests::text_part;

    pub(crate) fn file_source(path: &str, page: Option<u32>) -> CitedSource {
        CitedSource {
            kind: "FILE".to_owned(),
            url: None,
            path: Some(path.to_owned()),
            page,
            lines: page.is_none().then_some((3, 5)),
            page_name: None,
            title: None,
        }
    }

    pub(crate) fn sample_citation(id: &str, source: CitedSource) -> client::PartCitation {
        client::PartCitation { citation_id: id.to_owned(), source, verified: None, reason: None }
    }

    #[test]
    fn pages_named_by_file_kind() {
        for (path, page, lines, english, czech) in [
            ("/a.xlsx", (2, None), Some((4, 6)), "sheet 2, rows 4–6", "list 2, řádky 4–6"),
            ("/a.XLS", (2, None), Some((4, 4)), "sheet 2, row 4", "list 2, řádek 4"),
            ("/a.ods", (2, Some("Leden")), None, "sheet Leden", "list Leden"),
            ("/a.zip", (2, Some("b/c.txt")), Some((4, 6)), "b/c.txt, lines 4–6", "b/c.txt, řádky 4–6"),
            ("/a.pptx", (2, None), None, "slide 2", "snímek 2"),
            ("/a.pdf", (2, None), None, "page 2", "strana 2"),
        ] {
            assert_eq!(page_in_words(path, page, lines, LabelLanguage::English), english);
            assert_eq!(page_in_words(path, page, lines, LabelLanguage::Czech), czech);
        }
    }

    #[test]
    fn sources_listed_once_by_number() {
        let mut part = text_part("");
        let lease = file_source("/uploads/lease.pdf", Some(3));
        part.citations = vec![
            sample_citation("c4", lease.clone()),
            sample_citation("c2", file_source("/uploads/a.txt", None)),
            sample_citation("c4", lease),
        ];
        let listed = list_cited_sources(&[part], LabelLanguage::English);
        let expected = [(2, "/uploads/a.txt, lines 3–5"), (4, "/uploads/lease.pdf, page 3")];
        assert_eq!(listed, expected.map(|(number, place)| (number, place.to_owned())));
    }
}
