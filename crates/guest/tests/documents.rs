//! Real files of every format, and files that mean harm.

use std::fs::File;
use std::path::{Path, PathBuf};

use guest::documents::passages::split;
use guest::documents::{ExtractError, Extracted, Format, extract, extract_bytes};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn read(name: &str) -> Result<Extracted, ExtractError> {
    let path = fixture(name);
    extract(&path, File::open(&path).expect("the fixture is there"))
}

fn text(document: &Extracted) -> String {
    document.segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join("\n")
}

#[test]
fn pdf_has_pages_paragraphs_and_diacritics() {
    let lease = read("lease.pdf").unwrap();
    assert_eq!((lease.format, lease.pages), (Format::Pdf, Some(2)));
    assert_eq!(lease.segments.iter().map(|segment| segment.page).collect::<Vec<_>>(), [Some(1), Some(2)]);
    let first = &lease.segments[0].text;
    assert!(
        first.starts_with("NÁJEMNÍ SMLOUVA\n\nČl. 1 Předmět nájmu\n\nPronajímatel přenechává nájemci"),
        "{first}"
    );
    assert!(first.contains("o celkové výměře 61 metrů čtverečních.\n"), "{first}");
    assert!(first.contains("Služba\tZáloha (Kč)\nVoda\t900\nTeplo\t1 800\n"), "{first}");
    assert!(lease.segments[1].text.contains("Příliš žluťoučký kůň úpěl ďábelské ódy."));
}

#[test]
fn pdf_passages_know_page_and_article() {
    let pieces = split(&read("lease.pdf").unwrap(), 1200);
    let notice = pieces.iter().find(|piece| piece.text.contains("Výpovědní doba")).unwrap();
    assert_eq!((notice.page, notice.heading.as_deref()), (Some(2), Some("Čl. 3 Výpověď")));
    let rent = pieces.iter().find(|piece| piece.text.contains("15 800 Kč")).unwrap();
    assert_eq!((rent.page, rent.heading.as_deref()), (Some(1), Some("Čl. 2 Nájemné")));
}

#[test]
fn pdf_that_cannot_be_read_says_why() {
    assert!(matches!(read("scan.pdf"), Err(ExtractError::NoText { pages: 1 })));
    assert!(matches!(read("locked.pdf"), Err(ExtractError::Encrypted("PDF"))));
    assert!(matches!(read("broken.pdf"), Err(ExtractError::Broken { format: "PDF", .. })));
}

#[test]
fn docx_has_headings_rows_lists_and_footnotes() {
    let minutes = read("minutes.docx").unwrap();
    assert_eq!((minutes.format, minutes.pages, minutes.lines), (Format::Docx, None, Some(12)));
    let lines: Vec<String> = text(&minutes).lines().map(str::to_owned).collect();
    assert_eq!(
        lines,
        [
            "Zápis z porady",
            "1. Účastníci",
            "Přítomni byli Jana Dvořáková, Petr Svoboda a Šárka Říhová.",
            "2. Rozpočet",
            "Porada schválila rozpočet podle následující tabulky.",
            "Částky jsou uvedeny včetně DPH & poplatků.",
            "Položka\tČástka",
            "Oprava střechy\t240 000 Kč",
            "Výtah\t85 000 Kč",
            "Úkoly do příště:",
            "- objednat znalce",
            "- svolat shromáždění",
        ]
    );
    let pieces = split(&minutes, 1200);
    let lift = pieces.iter().find(|piece| piece.text.contains("Výtah")).unwrap();
    assert_eq!((lift.heading.as_deref(), lift.lines), (Some("2. Rozpočet"), Some((4, 12))));
}

#[test]
fn docx_pages_are_those_that_word_noted() {
    let paged = read("paged.docx").unwrap();
    assert_eq!((paged.pages, paged.lines), (Some(2), None));
    let second = paged.segments.iter().find(|segment| segment.page == Some(2)).unwrap();
    assert!(second.text.starts_with("Porada schválila"));
}

#[test]
fn workbook_sheets_are_pages_and_rows_lines() {
    let prices = read("prices.xlsx").unwrap();
    assert_eq!((prices.format, prices.pages), (Format::Workbook, Some(2)));
    assert_eq!(
        prices.segments[0].text,
        "Služba\tCena\tPlatí od\nÚklid\t500\t2024-03-01\nVýtah\t1234.5\t2024-04-01"
    );
    assert_eq!(prices.segments[0].heading.as_deref(), Some("Ceník: Služba | Cena | Platí od"));
    assert_eq!((prices.segments[1].page, prices.segments[1].lines), (Some(2), Some((3, 4))));
    assert_eq!(prices.segments[1].text, "\tPodáno\n\t17\ttrue");
}

#[test]
fn html_odt_and_old_encodings() {
    let notice = read("notice.html").unwrap();
    assert_eq!(
        text(&notice),
        "Oznámenie\nOdstávka vody\nVoda nepôjde v utorok 5. marca od 8.00 do 14.00 h.\nKontakt\nMeno\tTelefón\n\
         Ľubica Šťastná\t0900 123 456"
    );
    assert_eq!(text(&read("text.odt").unwrap()), "Úvod\nPrvní odstavec (poznámka).\n- položka\nA\t1");
    assert_eq!(
        text(&read("windows1250.txt").unwrap()),
        "Příliš žluťoučký kůň úpěl ďábelské ódy.\nDruhý řádek."
    );
}

#[test]
fn statutes_are_cut_at_their_sections() {
    let pieces = split(&read("statute.txt").unwrap(), 1200);
    let shown: Vec<_> =
        pieces.iter().map(|piece| (piece.heading.as_deref().unwrap_or(""), piece.lines.unwrap())).collect();
    assert_eq!(shown.len(), 3, "{shown:?}");
    assert_eq!(shown[2], ("§ 2 Výjimky", (11, 13)));
    assert!(pieces[1].text.contains("Podle § 2 odst. 1 se nepostupuje."));
}

#[test]
fn harm_is_refused() {
    assert!(matches!(read("bomb.docx"), Err(ExtractError::Bomb { .. })));
    assert!(read("empty.txt").unwrap().segments.is_empty());
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    let error = extract_bytes(Path::new("picture.pdf"), png).unwrap_err();
    assert_eq!(error.to_string(), "the file is binary (PNG image, 16 bytes) and has no text to read");
}

/// Whatever is done to a document, extraction answers.
#[test]
fn damaged_files_never_bring_it_down() {
    for name in ["lease.pdf", "minutes.docx", "prices.xlsx", "text.odt", "notice.html"] {
        let bytes = std::fs::read(fixture(name)).unwrap();
        for step in 1..12 {
            let mut cut = bytes[..bytes.len() * step / 12].to_vec();
            let _ = extract_bytes(Path::new(name), &cut);
            for at in (step..cut.len()).step_by(97) {
                cut[at] ^= 0x5a;
            }
            let _ = extract_bytes(Path::new(name), &cut);
        }
    }
}
