//! Unpacks tar archives and single compressed files: gzip, bzip2, xz and Zstandard. They have no index of their files, so they
//! are unpacked from the beginning.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Take};
use std::path::Path;

use super::ExtractError;
use super::archive::{ENTRIES_MAX, PART_MAX_BYTES, TOTAL_MAX_BYTES, decoded_name, is_of_system};
use super::container::{Ahead, ArchivedFile, DICTIONARY_MAX_KIB, FileContainer, check_length};
use super::unpacked::UnpackedArchive;

/// The block that contains the head of a file.
const BLOCK_BYTES: usize = 512;
/// The place of the checksum in a head.
const CHECKSUM: std::ops::Range<usize> = 148..156;

/// The compression of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileCompression {
    Gzip,
    Bzip2,
    Xz,
    Zstandard,
}

impl FileCompression {
    /// Returns the compression by a file's signature.
    pub(super) fn from_signature(bytes: &[u8]) -> Option<Self> {
        const SIGNATURES: [(&[u8], FileCompression); 4] = [
            (b"\x1f\x8b\x08", FileCompression::Gzip),
            (b"BZh", FileCompression::Bzip2),
            (b"\xfd7zXZ\0", FileCompression::Xz),
            (b"\x28\xb5\x2f\xfd", FileCompression::Zstandard),
        ];
        if is_skippable(bytes) {
            return Some(Self::Zstandard);
        }
        let (_, found) = SIGNATURES.into_iter().find(|(signature, _)| bytes.starts_with(signature))?;
        // Text may begin with `BZh`.
        let is_text = found == Self::Bzip2 && bytes.get(4..10) != Some(b"1AY&SY");
        (!is_text).then_some(found)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Bzip2 => "bzip2",
            Self::Xz => "xz",
            Self::Zstandard => "Zstandard",
        }
    }

    /// Returns the extensions that are added to the name of a compressed file.
    const fn name_extensions(self) -> &'static [&'static str] {
        match self {
            Self::Gzip => &["gz", "gzip"],
            Self::Bzip2 => &["bz2", "bz"],
            Self::Xz => &["xz"],
            Self::Zstandard => &["zst", "zstd"],
        }
    }

    fn open_decoder<'a>(self, bytes: &'a [u8]) -> Box<dyn Read + 'a> {
        match self {
            Self::Gzip => Box::new(flate2::read::MultiGzDecoder::new(bytes)),
            Self::Bzip2 => Box::new(bzip2::read::MultiBzDecoder::new(bytes)),
            Self::Xz => Box::new(lzma_rust2::XzReader::new_mem_limit(bytes, true, DICTIONARY_MAX_KIB)),
            Self::Zstandard => Box::new(ZstdFrames { left: bytes, frame: None }),
        }
    }
}

/// Returns true for a frame of Zstandard that has no content, which may precede others.
fn is_skippable(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|first| first & 0xf0 == 0x50) && bytes.get(1..4) == Some(b"\x2a\x4d\x18")
}

/// The frames of a Zstandard file, one after the other.
struct ZstdFrames<'a> {
    left: &'a [u8],
    frame: Option<ruzstd::decoding::StreamingDecoder<&'a [u8], ruzstd::decoding::FrameDecoder>>,
}

impl Read for ZstdFrames<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
        loop {
            if let Some(frame) = &mut self.frame {
                let read = frame.read(buffer)?;
                if read > 0 || buffer.is_empty() {
                    return Ok(read);
                }
            }
            if let Some(frame) = self.frame.take() {
                self.left = frame.into_inner();
            }
            if self.left.is_empty() {
                return Ok(0);
            }
            let window_max = u64::from(DICTIONARY_MAX_KIB) * 1024;
            match ruzstd::decoding::StreamingDecoder::new_with_max_window_size(self.left, window_max) {
                Ok(frame) => self.frame = Some(frame),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    // The length does not count the signature and itself.
                    let skipped = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(8);
                    self.left = self.left.get(skipped..).unwrap_or_default();
                }
                Err(error) => return Err(std::io::Error::other(error)),
            }
        }
    }
}

/// Returns true for the head of a file in a tar archive.
pub(super) fn is_tar(bytes: &[u8]) -> bool {
    let Some(head) = bytes.get(..BLOCK_BYTES) else { return false };
    let digits = String::from_utf8_lossy(&head[CHECKSUM]);
    let written = u32::from_str_radix(digits.trim_matches(['\0', ' ']), 8);
    let spaces = u32::from(b' ') * u32::try_from(CHECKSUM.len()).unwrap_or_default();
    let others = head[..CHECKSUM.start].iter().chain(&head[CHECKSUM.end..]);
    written.is_ok_and(|written| written == spaces + others.map(|byte| u32::from(*byte)).sum::<u32>())
}

/// A compressed file that is not a tar archive.
pub(super) struct CompressedFile<'a> {
    bytes: &'a [u8],
    compression: FileCompression,
    name: String,
}

impl FileContainer for CompressedFile<'_> {
    fn format_name(&self) -> &'static str {
        self.compression.name()
    }

    fn list_files(&mut self) -> Vec<ArchivedFile> {
        vec![ArchivedFile { index: 0, name: self.name.clone(), bytes: 0, is_encrypted: false }]
    }

    fn lacks_files(&self) -> bool {
        false
    }

    fn unpack_file(&mut self, _index: usize) -> Result<Vec<u8>, ExtractError> {
        let mut content = Vec::new();
        let mut unpacked = self.compression.open_decoder(self.bytes).take(PART_MAX_BYTES + 1);
        unpacked
            .read_to_end(&mut content)
            .map_err(|error| ExtractError::broken_file(self.format_name(), error))?;
        if content.len() as u64 > PART_MAX_BYTES {
            return Err(ExtractError::Bomb { bound: PART_MAX_BYTES });
        }
        Ok(content)
    }
}

/// A tar archive, compressed or not.
pub(super) struct Tar<'a> {
    bytes: &'a [u8],
    compression: Option<FileCompression>,
    files: Vec<ArchivedFile>,
    /// True if the archive is damaged after these files, or too large.
    is_cut: bool,
    /// The number of a file that may have another content than it had when it was packed.
    doubtful: Option<usize>,
    ahead: Ahead,
    format: &'static str,
}

impl<'a> Tar<'a> {
    const fn without_list(bytes: &'a [u8], compression: Option<FileCompression>, ahead: Ahead) -> Self {
        Self { bytes, compression, files: Vec::new(), is_cut: false, doubtful: None, ahead, format: "tar" }
    }

    /// Lists the files of an archive, until a damaged one or the unpacking limit.
    fn from_bytes(bytes: &'a [u8], compression: Option<FileCompression>) -> Result<Self, ExtractError> {
        let mut tar = Self::without_list(bytes, compression, Ahead::default());
        let mut files = Vec::new();
        let listed = tar.visit_files(|index, entry| {
            if index >= ENTRIES_MAX {
                return Err(ExtractError::TooManyParts { bound: ENTRIES_MAX });
            }
            let name = decoded_name(&entry.path_bytes());
            let name = name.strip_prefix("./").unwrap_or(&name).to_owned();
            if !is_of_system(&name) {
                files.push(ArchivedFile { index, name, bytes: entry.size(), is_encrypted: false });
            }
            Ok(true)
        });
        tar.files = files;
        match listed {
            Ok(()) => Ok(tar),
            Err(ExtractError::Broken { .. }) if !tar.files.is_empty() => Ok(Self { is_cut: true, ..tar }),
            Err(error) => Err(error),
        }
    }

    /// Lists the files of an archive of another format, which a program has converted to a tar archive.
    ///
    /// # Errors
    /// Fails if it has unpacked no file.
    pub(super) fn open_unpacked(unpacked: &'a UnpackedArchive) -> Result<Self, ExtractError> {
        let format = unpacked.format.name();
        let tar = Self { format, ..Self::from_bytes(&unpacked.tar, None)? };
        if unpacked.is_whole {
            return Ok(tar);
        }
        let Some(last) = tar.files.last().map(|file| file.index) else {
            return Err(ExtractError::broken_file(format, "no file of it can be unpacked"));
        };
        // Without an end the program gave up in the last file, maybe after all of its bytes.
        let has_end = unpacked.tar.ends_with(&[0; 2 * BLOCK_BYTES]);
        Ok(Self { is_cut: true, doubtful: (!has_end).then_some(last), ..tar })
    }

    /// Unpacks a file, and the files to unpack ahead.
    fn files_with(mut self, asked: usize) -> Result<BTreeMap<usize, Vec<u8>>, ExtractError> {
        let content = self.unpack_file(asked)?;
        let mut files = self.ahead.into_files();
        files.insert(asked, content);
        Ok(files)
    }

    /// Calls `visit` with each file and its number, until it returns false.
    fn visit_files(
        &self,
        mut visit: impl FnMut(usize, &mut tar::Entry<'_, Take<Box<dyn Read + 'a>>>) -> Result<bool, ExtractError>,
    ) -> Result<(), ExtractError> {
        let broken = |error| ExtractError::broken_file("tar", error);
        let unpacked: Box<dyn Read + 'a> = match self.compression {
            Some(compression) => compression.open_decoder(self.bytes),
            None => Box::new(self.bytes),
        };
        let mut archive = tar::Archive::new(unpacked.take(TOTAL_MAX_BYTES));
        let mut index = 0;
        for entry in archive.entries().map_err(broken)? {
            let mut entry = entry.map_err(broken)?;
            let kind = entry.header().entry_type();
            if !(kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse()) {
                continue;
            }
            if !visit(index, &mut entry)? {
                break;
            }
            index += 1;
        }
        Ok(())
    }
}

impl FileContainer for Tar<'_> {
    fn format_name(&self) -> &'static str {
        self.format
    }

    fn list_files(&mut self) -> Vec<ArchivedFile> {
        self.files.clone()
    }

    fn lacks_files(&self) -> bool {
        self.is_cut
    }

    fn unpack_file(&mut self, index: usize) -> Result<Vec<u8>, ExtractError> {
        let declared = self.files.iter().find(|file| file.index == index).map_or(0, |file| file.bytes);
        check_length(declared)?;
        if self.doubtful == Some(index) {
            return Err(ExtractError::broken_file(
                self.format,
                "it cannot be unpacked to the end of this file",
            ));
        }
        if let Some(content) = self.ahead.take_unpacked(index)? {
            return Ok(content);
        }
        let mut ahead = std::mem::take(&mut self.ahead);
        let unpacked = self.visit_files(|at, entry| {
            if at < index {
                return Ok(true);
            }
            if at == index {
                // The archive may not have been listed.
                check_length(entry.size())?;
            }
            ahead.unpack_entry(at, entry.size(), entry)
        });
        self.ahead = ahead;
        self.ahead.finish_unpacking(index, usize::MAX, unpacked)
    }
}

/// Opens a tar archive or compressed file; `None` if it is neither. `path` gives the name of a file that is compressed
/// alone.
pub(super) fn open_packed<'a>(
    path: &Path,
    bytes: &'a [u8],
) -> Result<Option<Box<dyn FileContainer + 'a>>, ExtractError> {
    Ok(match detect_packing(bytes)? {
        (compression, true) => Some(Box::new(Tar::from_bytes(bytes, compression)?)),
        (Some(compression), false) => {
            Some(Box::new(CompressedFile { bytes, compression, name: inner_name(path, compression) }))
        }
        (None, false) => None,
    })
}

/// Unpacks one file of a tar archive or compressed file; `None` if it is neither.
pub(super) fn unpack_packed_file(bytes: &[u8], index: usize) -> Result<Option<Vec<u8>>, ExtractError> {
    match detect_packing(bytes)? {
        (compression, true) => {
            Tar::without_list(bytes, compression, Ahead::without_wanted_files()).unpack_file(index)
        }
        (Some(compression), false) => {
            CompressedFile { bytes, compression, name: String::new() }.unpack_file(index)
        }
        (None, false) => return Ok(None),
    }
    .map(Some)
}

/// Unpacks a file of a tar archive, and other wanted ones with it; `None` if `bytes` are not such an archive.
pub(super) fn unpack_tar_files(
    bytes: &[u8],
    asked: usize,
    wanted: &BTreeSet<usize>,
) -> Result<Option<BTreeMap<usize, Vec<u8>>>, ExtractError> {
    match detect_packing(bytes)? {
        (compression, true) => Tar::without_list(bytes, compression, Ahead::with_wanted_files(wanted))
            .files_with(asked)
            .map(Some),
        (_, false) => Ok(None),
    }
}

/// Returns the compression of a file, and whether it is a tar archive.
fn detect_packing(bytes: &[u8]) -> Result<(Option<FileCompression>, bool), ExtractError> {
    let Some(compression) = FileCompression::from_signature(bytes) else { return Ok((None, is_tar(bytes))) };
    let mut head = Vec::new();
    let read = compression.open_decoder(bytes).take(BLOCK_BYTES as u64).read_to_end(&mut head);
    if head.is_empty() {
        read.map_err(|error| ExtractError::broken_file(compression.name(), error))?;
    }
    Ok((Some(compression), is_tar(&head)))
}

/// Returns the name of a file that is compressed alone: without the extension of its compression.
fn inner_name(path: &Path, compression: FileCompression) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match name.rsplit_once('.') {
        Some((stem, extension))
            if compression.name_extensions().contains(&extension.to_ascii_lowercase().as_str()) =>
        {
            stem.to_owned()
        }
        _ => name,
    }
}
