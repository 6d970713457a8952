//! Archives of tar and 7z, and single compressed files, made by GNU tar, gzip, bzip2, xz, zstd and 7-Zip.

use std::io::{Read, Write};
use std::path::Path;

use documents::{DocumentFormat, ExtractBounds, ExtractError, Extracted, extract_bytes, extract_part};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

const TGZ: &[u8] = include_bytes!("fixtures/birds.tgz");
const BZIP2: &[u8] = include_bytes!("fixtures/birds.tar.bz2");
const XZ: &[u8] = include_bytes!("fixtures/birds.tar.xz");
const ZSTANDARD: &[u8] = include_bytes!("fixtures/birds.tar.zst");
const SEVEN_ZIP: &[u8] = include_bytes!("fixtures/birds.7z");
/// A frame of Zstandard without content.
const SKIPPABLE: &[u8] = b"\x50\x2a\x4d\x18\x03\0\0\0abc";

fn read_archive(name: &str, bytes: &[u8]) -> Extracted {
    extract_bytes(Path::new(name), bytes).expect("it can be read")
}

/// Returns the texts of a page.
fn page_texts(document: &Extracted, page: u32) -> Vec<&str> {
    let of_page = document.segments.iter().filter(|segment| segment.page == Some(page));
    of_page.map(|segment| segment.text.as_str()).collect()
}

fn gzip_content(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("it is compressed");
    encoder.finish().expect("it ends")
}

fn tar_archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, name, *content).expect("it is added");
    }
    builder.into_inner().expect("it ends")
}

#[test]
fn packed_files_read_with_names() {
    let mut unpacked = Vec::new();
    GzDecoder::new(TGZ).read_to_end(&mut unpacked).expect("it is compressed");
    let framed = [SKIPPABLE, ZSTANDARD, SKIPPABLE].concat();
    let archives = [TGZ, BZIP2, XZ, ZSTANDARD, SEVEN_ZIP, unpacked.as_slice(), framed.as_slice()]
        .map(|bytes| read_archive("a", bytes));
    for read in archives {
        assert_eq!((read.format, read.pages, read.unread_files.len()), (DocumentFormat::Archive, Some(3), 0));
        let headings: Vec<_> = (1..=3).map(|number| page_texts(&read, number)[0]).collect();
        let number = |name| {
            1 + u32::try_from(headings.iter().position(|heading| *heading == name).expect(name)).unwrap()
        };
        assert_eq!(page_texts(&read, number("birds/siskin.txt"))[1..], ["A siskin.\n\nIt sings."]);
        assert_eq!(page_texts(&read, number("birds/rules.md"))[1..], ["# Rules\n\nA wren pays 12 500."]);
        assert_eq!(read.images.len(), 1, "the image may show text");
        assert_eq!(read.images[0].page, Some(number("birds/code_word.png")));
    }
}

#[test]
fn compressed_file_name_loses_extension() {
    let siskin = read_archive("/notes/siskin.txt.GZ", include_bytes!("fixtures/siskin.txt.gz"));
    assert_eq!((siskin.format, siskin.pages), (DocumentFormat::Archive, Some(1)));
    assert_eq!(page_texts(&siskin, 1), ["siskin.txt", "A siskin.\n\nIt sings."]);
    let page_of_web = read_archive("a.html.gz", &gzip_content(b"<p>A bare o<b>sier</b>"));
    assert_eq!(page_texts(&page_of_web, 1), ["a.html", "A bare osier"]);
    let twice = [gzip_content(b"One. "), gzip_content(b"Two.")].concat();
    assert_eq!(page_texts(&read_archive("b.gz", &twice), 1), ["b", "One. Two."], "gzip joins what follows");
}

#[test]
fn a_password_is_named() {
    for locked in [&include_bytes!("fixtures/locked.7z")[..], include_bytes!("fixtures/locked_names.7z")] {
        let error = extract_bytes(Path::new("a.7z"), locked).expect_err("it has a password");
        assert!(matches!(error, ExtractError::Encrypted("7z")), "{error}");
    }
}

#[test]
fn packed_archive_read_before_damage() {
    let noise: Vec<u8> =
        (0..200_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let whole = gzip_content(&tar_archive(&[
        ("first.txt", b"A wren."),
        ("second.bin", &noise),
        ("third.txt", b"A rook."),
    ]));
    let cut = read_archive("a.tar.gz", &whole[..whole.len() / 2]);
    assert_eq!(page_texts(&cut, 1), ["first.txt", "A wren."]);
    assert!(page_texts(&cut, 2)[0].starts_with("second.bin\n(not read: "), "{:?}", page_texts(&cut, 2));
    assert_eq!(cut.unread_files.last(), Some(&2), "what follows is not known to be whole");
    for broken in [&SEVEN_ZIP[..SEVEN_ZIP.len() / 2], &XZ[..20], &[BZIP2, b"BZh91AY&SYnoise"].concat()[..40]]
    {
        let outcome = extract_bytes(Path::new("a"), broken);
        let is_told = match &outcome {
            Ok(read) => !read.unread_files.is_empty(),
            Err(error) => matches!(error, ExtractError::Broken { .. }),
        };
        assert!(is_told, "{outcome:?}");
    }
}

#[test]
fn seven_zip_files_after_damage_unread() {
    // The packed files begin after the head of 32 bytes.
    let mut damaged = SEVEN_ZIP.to_vec();
    damaged[40] ^= 0xff;
    let read = read_archive("a.7z", &damaged);
    assert_eq!((read.pages, &*read.unread_files), (Some(3), &[1, 2, 3][..]));
    assert!(
        page_texts(&read, 3)[0].ends_with("a file before this one is damaged)"),
        "{:?}",
        page_texts(&read, 3)
    );
}

#[test]
fn tar_links_and_macos_files_skipped() {
    let mut builder = tar::Builder::new(Vec::new());
    let mut link = tar::Header::new_gnu();
    link.set_entry_type(tar::EntryType::Symlink);
    link.set_size(0);
    builder.append_link(&mut link, "passwd", "/etc/passwd").expect("it is added");
    for name in ["._a.txt", "folder/.DS_Store", "folder/../../a.txt"] {
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(5);
        header.set_cksum();
        builder.append(&header, &b"Text."[..]).expect("it is added");
    }
    let read = read_archive("a.tar", &builder.into_inner().expect("it ends"));
    assert_eq!(read.pages, Some(1));
    assert_eq!(page_texts(&read, 1), ["folder/../../a.txt", "Text."], "a name is shown, and never used");
}

#[test]
fn extract_part_reads_any_part_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("files.tgz");
    let large = "Words and words. ".repeat(1_200_000);
    let texts: Vec<(String, String)> =
        (1..=4).map(|number| (format!("{number}.csv"), format!("Text {number}.\n{large}"))).collect();
    let files: Vec<(&str, &[u8])> =
        texts.iter().map(|(name, text)| (name.as_str(), text.as_bytes())).collect();
    std::fs::write(&path, gzip_content(&tar_archive(&files))).expect("it is written");
    // The files together exceed the limit for unpacking ahead.
    for (first_page, last_page) in [(4, 4), (1, 1), (2, 4)] {
        let bounds = ExtractBounds { first_page, last_page, ..ExtractBounds::default() };
        let part =
            extract_part(&path, std::fs::File::open(&path).expect("it opens"), &bounds).expect("it is read");
        assert_eq!(part.pages, Some(4));
        assert_eq!(page_texts(&part, first_page)[0], format!("{first_page}.csv"));
        assert!(page_texts(&part, first_page)[1].starts_with(&format!("Text {first_page}.")));
    }
}

#[test]
fn bombs_are_bounded() {
    let zeros = vec![b'0'; 70 * 1024 * 1024];
    let single = read_archive("bomb.txt.gz", &gzip_content(&zeros));
    assert_eq!(single.unread_files, [1]);
    assert!(page_texts(&single, 1)[0].contains("unpacks to more than"), "{:?}", page_texts(&single, 1));
    let many = gzip_content(&tar_archive(&[
        ("a.txt", b"Read."),
        ("b", &zeros),
        ("c", &zeros),
        ("d", &zeros),
        ("e.txt", b"Beyond."),
    ]));
    let many = read_archive("bomb.tgz", &many);
    assert_eq!(page_texts(&many, 1), ["a.txt", "Read."]);
    assert!(many.unread_files.contains(&2) && many.unread_files.contains(&4), "{:?}", many.unread_files);
    let empty: Vec<(String, &[u8])> = (0..10_001).map(|number| (number.to_string(), &b""[..])).collect();
    let empty: Vec<(&str, &[u8])> = empty.iter().map(|(name, content)| (name.as_str(), *content)).collect();
    let error = extract_bytes(Path::new("a.tgz"), &gzip_content(&tar_archive(&empty)))
        .expect_err("there are too many");
    assert!(matches!(error, ExtractError::TooManyParts { .. }), "{error}");
}
