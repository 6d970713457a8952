//! Builds the answer's text: an introduction, quotes with their places, and a note on the reader.
//!
//! The content of documents is untrusted. It is quoted verbatim, but every character with a meaning in Markdown is
//! escaped, so that it cannot leave its quote or create links, images and citation marks.

mod table;

use std::borrow::Cow;
use std::fmt::Write;
use std::ops::Range;

use domain::citation::{NumberedPassage, PageKind, PassagePlace};
use domain::shown_name::shown_name;
use text_analysis::TextLanguage;

/// Longer quotes are truncated.
const QUOTE_MAX_BYTES: usize = 1200;

/// A quote of the answer.
#[derive(Debug)]
pub(super) struct Quote<'a> {
    pub(super) passage: &'a NumberedPassage,
    /// The number of its first lines that are titles of a table and headings of its columns.
    pub(super) head_lines: usize,
    /// The quoted ranges of the passage's text.
    pub(super) ranges: Vec<Range<usize>>,
    /// The range that answers, emphasized if more is quoted; empty if no range answers.
    pub(super) best: Range<usize>,
}

impl<'a> Quote<'a> {
    /// Quotes the whole passage.
    pub(super) fn from_passage(passage: &'a NumberedPassage) -> Self {
        Self { passage, head_lines: 0, ranges: std::iter::once(0..passage.text.len()).collect(), best: 0..0 }
    }
}

/// The things that an answer does not contain.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LeftOut {
    /// The passages that fit the question, quoted or not.
    pub(super) fitting: usize,
    /// The question asks for a sum.
    pub(super) asks_total: bool,
}

/// Builds an answer from quotes, best first.
pub(super) fn answer_from_quotes(language: TextLanguage, quotes: &[Quote<'_>], left_out: LeftOut) -> String {
    let Some((first, others)) = quotes.split_first() else {
        return answer_nothing_found(language, None, &[]);
    };
    let files = files_of(quotes);
    let mut out = lead_sentence(language, first.passage, &files);
    push_cited(&mut out, language, first, &files);
    if !others.is_empty() {
        out.push_str("\n\n");
        out.push_str(match language {
            TextLanguage::Czech => "Souvisí s tím také:",
            TextLanguage::Slovak => "Súvisí s tým aj:",
            TextLanguage::German => "Dazu gehört auch:",
            TextLanguage::English => "Related to it:",
        });
    }
    for quote in others {
        push_cited(&mut out, language, quote, &files);
    }
    push_left_out(&mut out, language, quotes.len(), left_out);
    out.push_str("\n\n");
    out.push_str(reader_notice(language));
    out
}

/// Appends the number of passages that are not quoted, and a note that sums are not calculated.
fn push_left_out(
    out: &mut String,
    language: TextLanguage,
    quoted: usize,
    LeftOut { fitting, asks_total }: LeftOut,
) {
    let mut sentences = Vec::new();
    if fitting > quoted {
        sentences.push(match language {
            TextLanguage::Czech => {
                format!("Otázce odpovídá více míst: zde jsou {quoted} z {fitting} nalezených.")
            }
            TextLanguage::Slovak => {
                format!("Otázke zodpovedá viac miest: tu sú {quoted} z {fitting} nájdených.")
            }
            TextLanguage::German => {
                format!("Zur Frage passen mehr Stellen: hier sind {quoted} von {fitting} gefundenen.")
            }
            TextLanguage::English => {
                format!("More passages fit the question: these are {quoted} of {fitting} found.")
            }
        });
    }
    if asks_total {
        sentences.push(
            match language {
                TextLanguage::Czech => "Vestavěná čtečka nesčítá; součet v dokumentech musí být uveden.",
                TextLanguage::Slovak => "Vstavaná čítačka nesčítava; súčet musí byť v dokumentoch uvedený.",
                TextLanguage::German => {
                    "Der eingebaute Leser addiert nicht; die Summe muss in den Dokumenten stehen."
                }
                TextLanguage::English => {
                    "The built-in reader does not add up; a total must stand in the documents."
                }
            }
            .to_owned(),
        );
    }
    if !sentences.is_empty() {
        out.push_str("\n\n");
        out.push_str(&sentences.join(" "));
    }
}

/// Builds the answer to a command to summarise, with the beginning of the document, if there is one.
pub(super) fn no_summary(language: TextLanguage, beginning: Option<&Quote<'_>>) -> String {
    let mut out = match language {
        TextLanguage::Czech => {
            "Shrnutí vyžaduje jazykový model, a ten tu neodpovídá. Provozovatel ho přidá klíčem nebo adresou, například \
             `ANTHROPIC_API_KEY`, `OPENAI_API_KEY` nebo `OPENAI_BASE_URL` vlastního serveru; je-li už přidán, zvolte ho u otázky."
        }
        TextLanguage::Slovak => {
            "Zhrnutie vyžaduje jazykový model, a ten tu neodpovedá. Prevádzkovateľ ho pridá kľúčom alebo adresou, napríklad \
             `ANTHROPIC_API_KEY`, `OPENAI_API_KEY` alebo `OPENAI_BASE_URL` vlastného servera; ak už je pridaný, zvoľte ho pri otázke."
        }
        TextLanguage::German => {
            "Eine Zusammenfassung erfordert ein Sprachmodell, und hier antwortet keines. Der Betreiber fügt es mit einem Schlüssel \
             oder einer Adresse hinzu, etwa `ANTHROPIC_API_KEY`, `OPENAI_API_KEY` oder `OPENAI_BASE_URL` eines eigenen Servers; \
             gibt es schon eines, wählen Sie es bei der Frage."
        }
        TextLanguage::English => {
            "A summary needs a language model, and none answers here. The operator adds one by its key or address, for instance \
             `ANTHROPIC_API_KEY`, `OPENAI_API_KEY` or `OPENAI_BASE_URL` of an own server; if there is one already, choose it with \
             the question."
        }
    }
    .to_owned();
    if let Some(beginning) = beginning {
        out.push(' ');
        out.push_str(match language {
            TextLanguage::Czech => "Dokument začíná takto:",
            TextLanguage::Slovak => "Dokument sa začína takto:",
            TextLanguage::German => "Das Dokument beginnt so:",
            TextLanguage::English => "The document begins like this:",
        });
        push_cited(&mut out, language, beginning, &files_of(std::slice::from_ref(beginning)));
    }
    out.push_str("\n\n");
    out.push_str(reader_notice(language));
    out
}

/// Builds the answer when the documents contain none, with the passages closest to the question, best first. `unread`
/// adds that files were not searched, and why.
pub(super) fn answer_nothing_found(
    language: TextLanguage,
    unread: Option<UnsearchedReason>,
    closest: &[Quote<'_>],
) -> String {
    let mut out = match language {
        TextLanguage::Czech => "Na tuto otázku jsem v dokumentech odpověď nenašel.",
        TextLanguage::Slovak => "Na túto otázku som v dokumentoch odpoveď nenašiel.",
        TextLanguage::German => "Auf diese Frage habe ich in den Dokumenten keine Antwort gefunden.",
        TextLanguage::English => "I found no answer to this question in the documents.",
    }
    .to_owned();
    if let Some(unread) = unread {
        out.push(' ');
        out.push_str(match (language, unread) {
            (TextLanguage::Czech, UnsearchedReason::Waiting) => {
                "Některé soubory ale ještě nebyly prohledány; zkuste se zeptat znovu."
            }
            (TextLanguage::Slovak, UnsearchedReason::Waiting) => {
                "Niektoré súbory však ešte neboli prehľadané; skúste sa spýtať znova."
            }
            (TextLanguage::German, UnsearchedReason::Waiting) => {
                "Einige Dateien wurden aber noch nicht durchsucht; fragen Sie bitte später noch einmal."
            }
            (TextLanguage::English, UnsearchedReason::Waiting) => {
                "Some files have not been searched yet, though; ask again in a while."
            }
            (TextLanguage::Czech, UnsearchedReason::Failed) => {
                "Hledání ale neproběhlo, dokumenty nebylo možné prohledat."
            }
            (TextLanguage::Slovak, UnsearchedReason::Failed) => {
                "Hľadanie však neprebehlo, dokumenty nebolo možné prehľadať."
            }
            (TextLanguage::German, UnsearchedReason::Failed) => {
                "Die Suche hat aber nicht funktioniert, die Dokumente wurden nicht durchsucht."
            }
            (TextLanguage::English, UnsearchedReason::Failed) => {
                "The search did not work, though, so the documents were not looked through."
            }
        });
    }
    if !closest.is_empty() {
        out.push(' ');
        out.push_str(match language {
            TextLanguage::Czech => "Otázce jsou nejblíže tato místa:",
            TextLanguage::Slovak => "Otázke sú najbližšie tieto miesta:",
            TextLanguage::German => "Der Frage am nächsten kommen diese Stellen:",
            TextLanguage::English => "These passages come closest to the question:",
        });
    }
    let files = files_of(closest);
    for quote in closest {
        push_cited(&mut out, language, quote, &files);
    }
    out.push_str("\n\n");
    out.push_str(reader_notice(language));
    out
}

/// Appends a quote and its citation.
fn push_cited(out: &mut String, language: TextLanguage, quote: &Quote<'_>, files: &[&str]) {
    out.push_str("\n\n");
    push_quote(out, quote);
    let _ = write!(
        out,
        "\n\n— {} [{}]",
        format_place(language, &quote.passage.place, files),
        quote.passage.number
    );
}

/// Returns the paths of the quoted files.
fn files_of<'a>(quotes: &[Quote<'a>]) -> Vec<&'a str> {
    let path = |quote: &Quote<'a>| match &quote.passage.place {
        PassagePlace::File { path, .. } => Some(path.as_str()),
        PassagePlace::Web { .. } => None,
    };
    quotes.iter().filter_map(path).collect()
}

/// The reason why files were not searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnsearchedReason {
    /// They are not indexed yet.
    Waiting,
    /// The search failed or is not offered.
    Failed,
}

fn lead_sentence(language: TextLanguage, passage: &NumberedPassage, files: &[&str]) -> String {
    let place = format_place(language, &passage.place, files);
    match language {
        TextLanguage::Czech => format!("K otázce se v dokumentech píše ({place}):"),
        TextLanguage::Slovak => format!("K otázke sa v dokumentoch píše ({place}):"),
        TextLanguage::German => format!("Zur Frage steht in den Dokumenten ({place}):"),
        TextLanguage::English => format!("This is what the documents say ({place}):"),
    }
}

const fn reader_notice(language: TextLanguage) -> &'static str {
    match language {
        TextLanguage::Czech => {
            "*Odpovídá vestavěná čtečka: není to jazykový model, jen vyhledává v dokumentech a cituje z nich.*"
        }
        TextLanguage::Slovak => {
            "*Odpovedá vstavaná čítačka: nie je to jazykový model, len vyhľadáva v dokumentoch a cituje z nich.*"
        }
        TextLanguage::German => {
            "*Antwort des eingebauten Lesers: Er ist kein Sprachmodell, sondern sucht nur in den Dokumenten und zitiert daraus.*"
        }
        TextLanguage::English => {
            "*Answered by the built-in reader: it is no language model, it only finds and quotes passages of the documents.*"
        }
    }
}

/// Returns a file's name, preceded by the folders needed to tell it from the others.
fn name_among<'a>(path: &'a str, files: &[&str]) -> &'a str {
    let ends = path.rmatch_indices('/').map(|(at, _)| at + 1);
    let is_unique = |name: &str| {
        let has_name =
            |other: &str| other.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
        !files.iter().any(|other| *other != path && has_name(other))
    };
    ends.map(|at| &path[at..]).find(|name| is_unique(name)).unwrap_or(path)
}

/// Formats a place: the file's name with its page or lines.
fn format_place(language: TextLanguage, place: &PassagePlace, files: &[&str]) -> String {
    match place {
        PassagePlace::File { path, page, lines, page_name } => {
            let name = name_among(path, files);
            // Markdown's emphasis must not begin or end with blanks, so blanks are made visible.
            let mut out = format!("**{}**", escape_markdown(&shown_name(name)));
            let kind = PageKind::from_path(name);
            let _ = match (page, page_name) {
                (Some(_), Some(name)) if kind == PageKind::File => write!(out, ", {}", escape_markdown(name)),
                (Some(page), Some(attached)) if kind == PageKind::Page => {
                    write!(out, ", {} {page}, {}", page_word(language, kind), escape_markdown(attached))
                }
                (Some(_), Some(name)) => {
                    write!(out, ", {} {}", page_word(language, kind), escape_markdown(name))
                }
                (Some(page), None) => write!(out, ", {} {page}", page_word(language, kind)),
                (None, _) => Ok(()),
            };
            if let Some((first, last)) = lines.filter(|_| page.is_none() || kind.has_lines()) {
                let word = line_word(language, kind, first == last);
                let _ = if first == last {
                    write!(out, ", {word} {first}")
                } else {
                    write!(out, ", {word} {first}–{last}")
                };
            }
            out
        }
        PassagePlace::Web { url, title } => {
            emphasize_escaped(&escape_markdown(if title.trim().is_empty() { url } else { title }))
        }
    }
}

fn page_word(language: TextLanguage, kind: PageKind) -> &'static str {
    match (language, kind) {
        (TextLanguage::Czech, PageKind::Sheet) => "list",
        (TextLanguage::Slovak, PageKind::Sheet) => "hárok",
        (TextLanguage::German, PageKind::Sheet) => "Blatt",
        (TextLanguage::English, PageKind::Sheet) => "sheet",
        (TextLanguage::Czech, PageKind::Slide) => "snímek",
        (TextLanguage::Slovak, PageKind::Slide) => "snímka",
        (TextLanguage::German, PageKind::Slide) => "Folie",
        (TextLanguage::English, PageKind::Slide) => "slide",
        (TextLanguage::Czech, PageKind::Section) => "oddíl",
        (TextLanguage::Slovak, PageKind::Section) => "oddiel",
        (TextLanguage::German, PageKind::Section) => "Abschnitt",
        (TextLanguage::English, PageKind::Section) => "section",
        (TextLanguage::Czech, PageKind::File) => "soubor",
        (TextLanguage::Slovak, PageKind::File) => "súbor",
        (TextLanguage::German, PageKind::File) => "Datei",
        (TextLanguage::English, PageKind::File) => "file",
        (TextLanguage::Czech | TextLanguage::Slovak, PageKind::Page) => "strana",
        (TextLanguage::German, PageKind::Page) => "Seite",
        (TextLanguage::English, PageKind::Page) => "page",
    }
}

fn line_word(language: TextLanguage, kind: PageKind, is_one: bool) -> &'static str {
    match (language, kind, is_one) {
        (TextLanguage::Czech, _, true) => "řádek",
        (TextLanguage::Czech, _, false) => "řádky",
        (TextLanguage::Slovak, _, true) => "riadok",
        (TextLanguage::Slovak, _, false) => "riadky",
        (TextLanguage::German, _, true) => "Zeile",
        (TextLanguage::German, _, false) => "Zeilen",
        (TextLanguage::English, PageKind::Sheet, true) => "row",
        (TextLanguage::English, PageKind::Sheet, false) => "rows",
        (TextLanguage::English, _, true) => "line",
        (TextLanguage::English, _, false) => "lines",
    }
}

/// Appends a block quote. Rows and list items keep their lines, wrapped lines are joined.
fn push_quote(out: &mut String, quote: &Quote<'_>) {
    if quote.head_lines > 0 {
        return table::push_quote(out, quote);
    }
    let is_longer = quote.ranges.iter().map(ExactSizeIterator::len).sum::<usize>() > quote.best.len();
    let mut left = QUOTE_MAX_BYTES;
    let mut started = false;
    for range in &quote.ranges {
        let whole = &quote.passage.text[range.clone()];
        let text = &whole[..whole.floor_char_boundary(left)];
        left -= text.len();
        for sentence in text_analysis::sentence::split_sentences(text) {
            let is_best = quote.best == (range.start + sentence.start..range.start + sentence.end);
            let line = text[sentence]
                .split('\n')
                .map(without_empty_cells)
                .filter(|line| !line.is_empty())
                .collect::<Vec<_>>()
                .join(" ");
            out.push_str(if started { "  \n> " } else { "> " });
            let line = escape_markdown(&line);
            out.push_str(&if is_best && is_longer { emphasize_escaped(&line) } else { line });
            started = true;
        }
        if text.len() < whole.len() {
            out.push_str(" …");
            return;
        }
    }
}

/// Returns a line without surrounding blanks; a row is also stripped of empty cells, because sheets have long
/// runs of them.
fn without_empty_cells(line: &str) -> Cow<'_, str> {
    let line = line.trim();
    if !line.contains('\t') {
        return Cow::Borrowed(line);
    }
    let cells: Vec<&str> = line.split('\t').map(str::trim).filter(|cell| !cell.is_empty()).collect();
    Cow::Owned(cells.join("\t"))
}

/// Puts an escaped text of one line between marks of emphasis, which work only where no blanks are inside them.
fn emphasize_escaped(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() { String::new() } else { format!("**{text}**") }
}

/// Escapes characters with a meaning in Markdown or its extensions. Replaces control characters with spaces.
pub(super) fn escape_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut begins = true;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\t' => out.push_str(" \\| "),
            _ if c.is_control() || is_direction(c) => out.push(' '),
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '~' | '!' | '&' | '$' | '^'
            | '@' | '{' | '}' | '=' => {
                out.push('\\');
                out.push(c);
            }
            '-' | '+' if begins => {
                out.push('\\');
                out.push(c);
            }
            // `1.` and `1)` start a list; `://` and `www.` a link.
            '.' | ')' if begins_with_number(&out) => {
                out.push('\\');
                out.push(c);
            }
            ':' if chars.peek() == Some(&'/') => out.push_str("\\:"),
            '.' if out.to_ascii_lowercase().ends_with("www") => out.push_str("\\."),
            _ => out.push(c),
        }
        begins &= c.is_whitespace();
    }
    out
}

/// Returns true for invisible and direction-changing characters, which could disguise a quote.
const fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

fn begins_with_number(out: &str) -> bool {
    let trimmed = out.trim_start();
    !trimmed.is_empty() && trimmed.len() <= 9 && trimmed.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_passage(text: &str) -> NumberedPassage {
        let place = PassagePlace::File {
            path: "/uploads/a_b.pdf".to_owned(),
            page: Some(2),
            lines: None,
            page_name: None,
        };
        NumberedPassage { number: 3, place, text: text.to_owned() }
    }

    #[test]
    fn hostile_text_stays_in_its_quote() {
        let text = "Ignore this [1] ![x](http://evil.example/a.png)\n\n# Heading\n> out\n```\n<img src=x> www.evil.example";
        let passage = sample_passage(text);
        let answer =
            answer_from_quotes(TextLanguage::English, &[Quote::from_passage(&passage)], LeftOut::default());
        let marks: Vec<u32> =
            domain::citation::mark::find_marks(&answer).flat_map(|mark| mark.numbers).collect();
        assert_eq!(marks, [3], "{answer}");
        for line in answer
            .lines()
            .filter(|line| line.contains("Heading") || line.contains("img") || line.contains("out"))
        {
            assert!(line.starts_with("> "), "{answer}");
        }
        assert!(!answer.replace("\\]", "").contains("]("), "{answer}");
        assert!(!answer.contains("p://") && !answer.contains("www."), "{answer}");
    }

    #[test]
    fn same_named_files_show_folders() {
        let files = ["/a/x/rent.txt", "/b/x/rent.txt", "/rent.txt", "/b/other.txt"];
        let names: Vec<&str> = files.iter().map(|path| name_among(path, &files)).collect();
        assert_eq!(names, ["a/x/rent.txt", "b/x/rent.txt", "/rent.txt", "other.txt"]);
        assert_eq!(name_among("/a/x/rent.txt", &["/a/x/rent.txt"]), "rent.txt");
    }

    #[test]
    fn places_named_by_file_kind() {
        let at = |path: &str, page, lines| {
            let file = PassagePlace::File { path: path.to_owned(), page, lines, page_name: None };
            format_place(TextLanguage::English, &file, &[path])
        };
        assert_eq!(at("/a.xlsx", Some(2), Some((4, 6))), "**a.xlsx**, sheet 2, rows 4–6");
        assert_eq!(at("/a.ods", Some(2), None), "**a.ods**, sheet 2");
        assert_eq!(at("/a.pptx", Some(2), None), "**a.pptx**, slide 2");
        assert_eq!(at("/a.epub", Some(2), None), "**a.epub**, section 2");
        assert_eq!(at("/  a.txt ", None, Some((1, 1))), "**␣␣a.txt␣**, line 1");
        assert_eq!(at("/ ", None, Some((1, 1))), "**␣**, line 1");
        assert_eq!(at("/a.docx", None, Some((3, 3))), "**a.docx**, line 3");
        assert_eq!(at("/a.zip", Some(2), Some((3, 3))), "**a.zip**, file 2, line 3");
        let named = |path: &str, name: &str| {
            let (path, page_name) = (path.to_owned(), Some(name.to_owned()));
            let file = PassagePlace::File { path, page: Some(2), lines: None, page_name };
            format_place(TextLanguage::Czech, &file, &[])
        };
        assert_eq!(named("/a.zip", "b_c.pdf, page 3"), "**a.zip**, b\\_c.pdf, page 3");
        assert_eq!(named("/a.pdf", "účet.pdf, page 1"), "**a.pdf**, strana 2, účet.pdf, page 1");
        assert_eq!(named("/a.xlsx", "Leden"), "**a.xlsx**, list Leden");
    }

    #[test]
    fn answer_names_place_in_language() {
        let passage = sample_passage("Lhůta je 30 dnů.");
        let answer =
            answer_from_quotes(TextLanguage::Czech, &[Quote::from_passage(&passage)], LeftOut::default());
        assert!(answer.contains("> Lhůta je 30 dnů."), "{answer}");
        assert!(answer.contains("— **a\\_b.pdf**, strana 2 [3]"), "{answer}");
        assert!(answer.contains("není to jazykový model"));
    }

    #[test]
    fn empty_cells_not_quoted() {
        let passage = sample_passage("Hall B\t\t\t 200\t\t\t\t");
        let answer =
            answer_from_quotes(TextLanguage::English, &[Quote::from_passage(&passage)], LeftOut::default());
        assert!(answer.contains("> Hall B \\| 200\n"), "{answer}");
    }

    #[test]
    fn emphasis_has_no_blanks_inside() {
        for (text, emphasized) in [
            ("Rent\t900", "**Rent \\| 900**"),
            ("\t\tPhilosophy\t5\t", "**\\|  \\| Philosophy \\| 5 \\|**"),
            ("\u{7}\u{a0}Rent\u{2028}", "**Rent**"),
            (" \u{7}", ""),
        ] {
            assert_eq!(emphasize_escaped(&escape_markdown(text)), emphasized);
        }
        let place = PassagePlace::Web { url: "u".to_owned(), title: " Rent\n".to_owned() };
        assert_eq!(format_place(TextLanguage::English, &place, &[]), "**Rent**");
    }

    #[test]
    fn answer_states_what_is_omitted() {
        let passage = sample_passage("The rent is 900.");
        let answer =
            |left_out| answer_from_quotes(TextLanguage::English, &[Quote::from_passage(&passage)], left_out);
        let more = answer(LeftOut { fitting: 11, asks_total: true });
        assert!(more.contains("these are 1 of 11 found. The built-in reader does not add up"), "{more}");
        let all = answer(LeftOut { fitting: 1, asks_total: false });
        assert!(!all.contains("found.") && !all.contains("add up"), "{all}");
    }

    #[test]
    fn summary_refused_with_model_hint() {
        let passage = sample_passage("LEASE AGREEMENT");
        let answer = no_summary(TextLanguage::English, Some(&Quote::from_passage(&passage)));
        assert!(answer.starts_with("A summary needs a language model") && answer.contains("OPENAI_BASE_URL"));
        assert!(answer.contains("> LEASE AGREEMENT\n\n— **a\\_b.pdf**, page 2 [3]"), "{answer}");
        assert!(!no_summary(TextLanguage::Czech, None).contains("začíná"));
    }
}
