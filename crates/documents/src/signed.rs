//! Signed files (CMS, also called PKCS #7): the content that their signature encloses. Signatures are not checked.

use std::borrow::Cow;

use bcder::decode::{BytesSource, Constructed, DecodeError, Source};
use bcder::{Mode, OctetString, Oid, Tag};
use bytes::Bytes;

use super::ExtractError;

/// The identifiers of the content of such a file, as encoded at its beginning.
const SIGNED: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02";
const ENVELOPED: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x03";
const AUTH_ENVELOPED: &[u8] = b"\x06\x0b\x2a\x86\x48\x86\xf7\x0d\x01\x09\x10\x01\x17";
/// The longest tag and length before them, in bytes.
const HEADER_MAX_BYTES: usize = 6;
/// The maximum number of signatures around each other.
const SIGNATURES_MAX: usize = 4;

/// Returns true for a signed or encrypted file.
pub(super) fn is_cms(bytes: &[u8]) -> bool {
    is_of(bytes, &[SIGNED, ENVELOPED, AUTH_ENVELOPED])
}

fn is_of(bytes: &[u8], kinds: &[&[u8]]) -> bool {
    bytes.starts_with(b"\x30")
        && (2..=HEADER_MAX_BYTES)
            .any(|at| bytes.get(at..).is_some_and(|rest| kinds.iter().any(|kind| rest.starts_with(kind))))
}

/// Returns the content that the signatures of a file enclose.
///
/// # Errors
/// Fails if it is encrypted or broken, or contains only the signature.
pub(super) fn extract_signed_content(bytes: &[u8]) -> Result<Cow<'_, [u8]>, ExtractError> {
    let mut content = Cow::Borrowed(bytes);
    for _ in 0..SIGNATURES_MAX {
        if !is_cms(&content) {
            return Ok(content);
        }
        if !is_of(&content, &[SIGNED]) {
            return Err(ExtractError::Encrypted("CMS"));
        }
        content = Cow::Owned(enclosed_by_one(Bytes::from(content.into_owned()))?);
    }
    Err(ExtractError::TooManyParts { bound: SIGNATURES_MAX })
}

/// Returns true for the body of a mail with a header.
pub(super) fn is_mail(content: &[u8]) -> bool {
    const FIRST: [&[u8]; 2] = [b"content-type:", b"mime-version:"];
    FIRST
        .iter()
        .any(|first| content.get(..first.len()).is_some_and(|start| start.eq_ignore_ascii_case(first)))
}

fn enclosed_by_one(bytes: Bytes) -> Result<Vec<u8>, ExtractError> {
    let mut found = None;
    let read = Mode::Ber.decode(BytesSource::new(bytes), |file| {
        file.take_sequence(|file| read_signed_data(file, &mut found))
    });
    match (found, read) {
        // The bytes after it may be damaged.
        (Some(Some(content)), _) => Ok(content.to_bytes().to_vec()),
        (Some(None), _) => Err(ExtractError::Unsupported {
            kind: "a signature that does not enclose what it signs",
            remedy: "upload the signed file",
        }),
        (None, Err(error)) => Err(ExtractError::broken_file("CMS", error)),
        (None, Ok(())) => Err(ExtractError::broken_file("CMS", "it has no content")),
    }
}

/// Reads `ContentInfo` of signed data, and puts the content, or its absence, into `found`.
fn read_signed_data<S: Source>(
    file: &mut Constructed<'_, S>,
    found: &mut Option<Option<OctetString>>,
) -> Result<(), DecodeError<S::Error>> {
    Oid::skip_in(file)?;
    file.take_constructed_if(Tag::CTX_0, |file| {
        file.take_sequence(|data| {
            data.take_u8()?;
            data.take_set(|algorithms| algorithms.skip_all())?;
            data.take_sequence(|content| {
                Oid::skip_in(content)?;
                *found = Some(None);
                content.take_opt_constructed_if(Tag::CTX_0, |content| {
                    *found = None;
                    *found = Some(Some(OctetString::take_from(content)?));
                    Ok(())
                })
            })?;
            data.skip_all()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZFO: &[u8] = include_bytes!("../tests/fixtures/data_message.zfo");
    const SIGNED_PDF: &[u8] = include_bytes!("../tests/fixtures/signed.pdf.p7m");

    #[test]
    fn extract_signed_content_both_encodings() {
        assert!(
            ZFO.starts_with(b"\x30\x80") && SIGNED_PDF.starts_with(b"\x30\x82"),
            "of unknown and known length"
        );
        let message = extract_signed_content(ZFO).expect("a message");
        assert!(message.starts_with(b"<?xml") && message.trim_ascii().ends_with(b"MessageDownloadResponse>"));
        assert!(extract_signed_content(SIGNED_PDF).expect("a PDF").starts_with(b"%PDF-"));
        assert_eq!(*extract_signed_content(b"0 no signature").expect("the same"), b"0 no signature"[..]);
        let cut =
            extract_signed_content(&SIGNED_PDF[..SIGNED_PDF.len() - 100]).expect("its certificates are cut");
        assert!(cut.starts_with(b"%PDF-"));
    }

    #[test]
    fn extract_signed_content_other_refused() {
        for (file, expected) in [
            (ENVELOPED, "the CMS file is encrypted and needs a password"),
            (AUTH_ENVELOPED, "the CMS file is encrypted and needs a password"),
        ] {
            let error =
                extract_signed_content(&[&b"\x30\x80"[..], file].concat()).expect_err("it is encrypted");
            assert_eq!(error.to_string(), expected);
        }
        // SignedData with version 1, no algorithms, and data that is not there.
        let content = b"\x30\x0b\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01";
        let data = [&b"\x30\x12\x02\x01\x01\x31\x00"[..], content].concat();
        let detached = [&b"\x30\x21"[..], SIGNED, b"\xa0\x14", &data].concat();
        let error = extract_signed_content(&detached).expect_err("it encloses nothing").to_string();
        assert!(error.contains("does not enclose what it signs"), "{error}");
        for end in 0..300 {
            let _ = extract_signed_content(&SIGNED_PDF[..end]);
            let _ = extract_signed_content(&ZFO[..end]);
        }
    }

    #[test]
    fn signatures_around_each_other_are_bounded() {
        let wrapped = |inner: &[u8]| {
            let field = |tag: u8, content: &[u8]| {
                let length = u32::try_from(content.len()).expect("short");
                [&[tag, 0x84][..], &length.to_be_bytes(), content].concat()
            };
            let content =
                [&b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01"[..], &field(0xa0, &field(0x04, inner))];
            let data = [&b"\x02\x01\x01\x31\x00"[..], &field(0x30, &content.concat())].concat();
            field(0x30, &[SIGNED, &field(0xa0, &field(0x30, &data))].concat())
        };
        let twice = wrapped(&wrapped(b"inside"));
        assert_eq!(*extract_signed_content(&twice).expect("it is unwrapped"), b"inside"[..]);
        let deep = (0..9).fold(b"inside".to_vec(), |inner, _| wrapped(&inner));
        assert!(extract_signed_content(&deep).is_err());
    }
}
