//! Loads the images of an exchange from the workspace for one step: the newest, up to the limit of a request.

use std::collections::HashSet;

use domain::image::{IMAGE_MAX_BYTES, IMAGES_MAX, IMAGES_MAX_BYTES, Image, ImageRef};
use domain::step::Item;
use futures_util::StreamExt;
use workspace::{AskedPath, Workspace};

/// Loads the images that the transcript refers to. Leaves out an image whose file is missing or has changed; the text
/// that names it stays.
pub(super) async fn load(workspace: &Workspace, transcript: &[Item]) -> Vec<Image> {
    let mut images: Vec<Image> = Vec::new();
    let mut seen: HashSet<&ImageRef> = HashSet::new();
    let mut room = IMAGES_MAX_BYTES;
    for of in newest(transcript).filter(|of| seen.insert(of)).take(IMAGES_MAX) {
        if let Some(bytes) = read(workspace, of).await
            && bytes.len() <= room
        {
            room -= bytes.len();
            images.push(Image { of: of.clone(), bytes: bytes.into() });
        }
    }
    images
}

/// Returns the references to images, newest first.
fn newest(transcript: &[Item]) -> impl Iterator<Item = &ImageRef> {
    transcript.iter().rev().flat_map(|item| match item {
        Item::Result(result) => result.images.as_slice(),
        Item::Question { .. } | Item::Step(_) => &[],
    })
}

/// Returns the bytes of an image if its file has not changed since it entered the exchange.
async fn read(workspace: &Workspace, of: &ImageRef) -> Option<Vec<u8>> {
    let file = workspace.open_file(&AskedPath::from_text(&of.path).ok()?).await.ok()?;
    if file.size > IMAGE_MAX_BYTES as u64 {
        return None;
    }
    let mut bytes = Vec::with_capacity(usize::try_from(file.size).ok()?);
    let mut stream = file.stream(0..file.size);
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk.ok()?);
    }
    let same = ImageRef::of(&of.path, &bytes).ok()? == *of;
    same.then_some(bytes)
}
