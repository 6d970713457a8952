//! Loads the images of an exchange for one step: the newest, up to the limit of a request. Files are read from the
//! workspace, pages of documents are drawn by the account's machine.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::id::AccountId;
use domain::image::{IMAGE_MAX_BYTES, IMAGES_MAX, IMAGES_MAX_BYTES, ImageRef, LoadedImage};
use domain::step::TranscriptItem;
use futures_util::StreamExt;
use machine::preview::{PageRequest, Viewer};
use machine::{GuestConnection, Machines, SupervisorError};
use tokio::time::{Instant, timeout_at};
use workspace::{AskedPath, Workspace, Workspaces};

/// The time limit for drawing the pages of one step. Pages that are not ready by then are left out.
const DRAW_TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum number of bytes of drawn pages that are kept for the next step of a turn; others are drawn again.
const KEPT_MAX_BYTES: usize = 4_000_000;

/// The images of one turn.
pub(super) struct TurnImages {
    account: AccountId,
    workspaces: Workspaces,
    machines: Machines,
    /// Pages that were drawn for the last step.
    drawn: Mutex<Vec<LoadedImage>>,
}

impl TurnImages {
    /// Creates the images of a turn of this account.
    pub(super) fn new(workspaces: Workspaces, machines: Machines, account: AccountId) -> Self {
        Self { account, workspaces, machines, drawn: Mutex::default() }
    }

    /// Loads the images that the transcript refers to. Leaves out an image that is missing or has changed; the text
    /// that names it stays. Cancel safe.
    pub(super) async fn load_images(&self, transcript: &[TranscriptItem]) -> Vec<LoadedImage> {
        let workspace = self.workspaces.workspace_for(self.account);
        let mut pages = PageDrawer::new(self);
        let mut images: Vec<LoadedImage> = Vec::new();
        let mut seen: HashSet<&ImageRef> = HashSet::new();
        let mut room = IMAGES_MAX_BYTES;
        for of in newest_images(transcript).filter(|of| seen.insert(of)).take(IMAGES_MAX) {
            let image = match of.page {
                Some(page) => pages.draw_page(of, page).await,
                None => read_image(&workspace, of).await,
            };
            if let Some(image) = image.filter(|image| image.bytes.len() <= room) {
                room -= image.bytes.len();
                images.push(image);
            }
        }
        self.keep_drawn(&images);
        images
    }

    fn find_drawn(&self, of: &ImageRef) -> Option<LoadedImage> {
        let drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        drawn.iter().find(|image| image.of == *of).cloned()
    }

    fn keep_drawn(&self, images: &[LoadedImage]) {
        let mut room = KEPT_MAX_BYTES;
        let kept = images.iter().filter(|image| image.of.page.is_some()).take_while(|image| {
            let fits = image.bytes.len() <= room;
            room = room.saturating_sub(image.bytes.len());
            fits
        });
        *self.drawn.lock().unwrap_or_else(PoisonError::into_inner) = kept.cloned().collect();
    }
}

/// Draws the pages of one step.
struct PageDrawer<'a> {
    images: &'a TurnImages,
    deadline: Instant,
    /// The machine, after its first use.
    machine: Option<Result<GuestConnection, SupervisorError>>,
}

impl<'a> PageDrawer<'a> {
    fn new(images: &'a TurnImages) -> Self {
        Self { images, deadline: Instant::now() + DRAW_TIMEOUT, machine: None }
    }

    /// Returns the picture of a page, if it is still the same.
    async fn draw_page(&mut self, of: &ImageRef, page: u32) -> Option<LoadedImage> {
        if let Some(kept) = self.images.find_drawn(of) {
            return Some(kept);
        }
        let drawn = timeout_at(self.deadline, self.drawn_by_machine(of, page)).await.ok()??;
        (drawn.of == *of).then_some(drawn)
    }

    async fn drawn_by_machine(&mut self, of: &ImageRef, page: u32) -> Option<LoadedImage> {
        let machines = &self.images.machines;
        if self.machine.is_none() {
            self.machine = Some(machines.for_preview(self.images.account).await);
        }
        let request = PageRequest { path: of.path.clone(), page, viewer: Viewer::Model };
        let drawn = match self.machine.as_ref()? {
            Ok(machine) => machine.page_picture(&request).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let bytes = drawn
            .inspect_err(|error| {
                tracing::debug!(account = %self.images.account, error, "page rendering for a model failed");
            })
            .ok()?;
        Some(LoadedImage {
            of: ImageRef::of_page(&of.path, page, &bytes).ok()?,
            bytes: bytes.as_ref().into(),
        })
    }
}

/// Returns the references to images, newest first.
fn newest_images(transcript: &[TranscriptItem]) -> impl Iterator<Item = &ImageRef> {
    transcript.iter().rev().flat_map(|item| match item {
        TranscriptItem::Result(result) => result.images.as_slice(),
        TranscriptItem::Question { .. } | TranscriptItem::Step(_) => &[],
    })
}

/// Returns an image if its file has not changed since it entered the exchange.
async fn read_image(workspace: &Workspace, of: &ImageRef) -> Option<LoadedImage> {
    let file = workspace.open_file(&AskedPath::from_text(&of.path)).await.ok()?;
    if file.size > IMAGE_MAX_BYTES as u64 {
        return None;
    }
    let mut bytes = Vec::with_capacity(usize::try_from(file.size).ok()?);
    let mut stream = file.stream_range(0..file.size);
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk.ok()?);
    }
    let same = ImageRef::from_file(&of.path, &bytes).ok()? == *of;
    same.then(|| LoadedImage { of: of.clone(), bytes: bytes.into() })
}
