//! Files of an archive in which several images are read one after another. Files that can only be unpacked with the files before
//! them are unpacked together.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::once;

use super::{EmbeddedImage, FoundImage, container, embedded_image, embedded_images, without_signatures};

/// The maximum number of bytes of files that are kept.
pub(super) const KEPT_MAX_BYTES: u64 = 32 * 1024 * 1024;

/// The files that were unpacked of one archive, by their numbers.
#[derive(Debug, Default)]
pub struct KeptFiles(BTreeMap<usize, Vec<u8>>);

impl KeptFiles {
    /// Returns an image inside a document, like [`embedded_image`]. `following` are the parts of the images that will be
    /// requested next, in their order. The document is only read if no kept file contains the image.
    ///
    /// # Errors
    /// Returns the error of reading the document.
    pub fn find_image(
        &mut self,
        image: &EmbeddedImage,
        following: &[String],
        document: impl FnOnce() -> Result<Vec<u8>, String>,
    ) -> Result<Option<FoundImage>, String> {
        let Some((number, inner)) = embedded_images::in_archived(&image.part) else {
            return Ok(embedded_image(&document()?, image));
        };
        if !self.0.contains_key(&number) {
            self.0.clear();
            let document = document()?;
            let numbers = following.iter().filter_map(|part| Some(embedded_images::in_archived(part)?.0));
            let wanted: BTreeSet<usize> = once(number).chain(numbers).collect();
            match container::unpack_wanted_files(&document, number, &wanted) {
                Ok(Some(files)) => self.0 = files,
                Ok(None) => return Ok(embedded_image(&document, image)),
                Err(_) => return Ok(None),
            }
        }
        // Earlier files are not requested again.
        self.0 = self.0.split_off(&number);
        let file = self.0.get(&number).cloned();
        Ok(file.and_then(|file| embedded_image(&without_signatures(file), &inner)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const IMAGE: &[u8] = include_bytes!("../tests/fixtures/code_word.png");
    const SEVEN_ZIP: &[u8] = include_bytes!("../tests/fixtures/birds.7z");

    fn tar_gz_archive(files: &[&[u8]]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut builder = tar::Builder::new(&mut encoder);
        for (number, content) in files.iter().enumerate() {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            builder.append_data(&mut header, number.to_string(), *content).unwrap();
        }
        builder.finish().unwrap();
        drop(builder);
        encoder.flush().unwrap();
        encoder.finish().unwrap()
    }

    /// Requests the images with these file numbers, one after another. Returns the contents that were found and how often the
    /// archive was read.
    fn find_images_in_order(archive: &[u8], numbers: &[usize]) -> (Vec<Option<Vec<u8>>>, usize) {
        let parts: Vec<String> = numbers.iter().map(|number| format!("{number}\n0\n")).collect();
        let (mut kept, mut times) = (KeptFiles::default(), 0);
        let mut found = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let image = EmbeddedImage { part: part.clone(), page: None, line: None, heading: None };
            let document = || {
                times += 1;
                Ok(archive.to_vec())
            };
            let image = kept.find_image(&image, &parts[at + 1..], document).expect("it can be read");
            found.push(image.map(|(content, _)| content));
        }
        (found, times)
    }

    #[test]
    fn find_image_unpacks_compressed_archive_once() {
        let archive = tar_gz_archive(&[b"First.", IMAGE, b"Between.", IMAGE, IMAGE, b"Last.", IMAGE]);
        let (found, times) = find_images_in_order(&archive, &[1, 3, 4, 6]);
        assert!(found.iter().all(|content| content.as_deref() == Some(IMAGE)), "{found:?}");
        assert_eq!(times, 1);
        let (found, _) = find_images_in_order(&archive, &[1, 9]);
        assert!(found[0].is_some() && found[1].is_none(), "there is no such file");
        // The first entry is a folder.
        let (found, times) = find_images_in_order(SEVEN_ZIP, &[1, 2, 3]);
        let is_image = |content: &&Vec<u8>| *content == IMAGE;
        assert_eq!((found.iter().flatten().filter(is_image).count(), times), (1, 1));
    }

    #[test]
    fn find_image_keeps_bounded_files() {
        let large = vec![0; KEPT_MAX_BYTES as usize * 2 / 3];
        let (_, times) = find_images_in_order(&tar_gz_archive(&[&large, &large, &large]), &[0, 1, 2]);
        assert_eq!(times, 3);
        let half = vec![0; KEPT_MAX_BYTES as usize / 2];
        let (_, times) = find_images_in_order(&tar_gz_archive(&[&half, &half, &half, &half]), &[0, 1, 2, 3]);
        assert_eq!(times, 2);
    }
}
