//! The skills' files below the data folder, from where machines see them.
//!
//! ```text
//! <folder>/causerie             -> .content/3f9a…   one link for each plugin, replaced in one step
//! <folder>/.content/3f9a…/skills/contract-review/SKILL.md
//! ```
//! The name in `.content` is a hash of all that lies there, so that nothing there ever changes: a machine that
//! runs goes on with whole skills while a plugin is exchanged, because it sees this folder itself.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::library::Library;
use crate::tree::{Found, Tree, TreeError, join};
use crate::{Notice, PLUGIN_MAX_BYTES, SKILL_FILE_MAX_BYTES};

/// Where the folder stands in a machine.
pub const MACHINE_FOLDER: &str = "/plugins";

const CONTENT: &str = ".content";
const FRESH: &str = ".fresh";
const LINK: &str = ".link";

/// The files of a plugin's skills.
#[derive(Debug, Clone)]
pub(crate) struct Shelf {
    pub(crate) plugin: String,
    pub(crate) tree: Tree,
    /// Each skill's folder name, its folder in the tree, and its files.
    pub(crate) skills: Vec<(String, String, Vec<Found>)>,
}

/// Why files could not be laid out.
#[derive(Debug, thiserror::Error)]
#[error("the skills' files cannot be laid out in {folder}: {source}")]
pub struct PublishError {
    folder: String,
    #[source]
    source: io::Error,
}

impl Library {
    /// Lays the files of all skills out in `folder`, which is made, and removes those of plugins that are gone.
    /// A plugin whose files cannot be read keeps what it had; that is noted. Blocks.
    ///
    /// # Errors
    /// [`PublishError`] when the folder cannot be written.
    pub fn publish(&mut self, folder: &Path) -> Result<(), PublishError> {
        let failed = |source| PublishError { folder: folder.display().to_string(), source };
        public_folder(folder).and_then(|()| public_folder(&folder.join(CONTENT))).map_err(failed)?;
        let mut kept = vec![CONTENT.to_owned()];
        let mut contents = Vec::new();
        for shelf in &self.shelves {
            match lay_out(shelf, folder) {
                Ok(content) => contents.push(content),
                Err(TreeError::Io(error)) => return Err(failed(error)),
                Err(error) => self.notices.push(Notice {
                    file: shelf.tree.shown(""),
                    line: None,
                    text: format!("the files of {} are not laid out: {error}", shelf.plugin),
                    skipped: true,
                }),
            }
            kept.push(shelf.plugin.clone());
        }
        sweep(folder, &kept).map_err(failed)?;
        // Of a plugin that could not be laid out, what it had.
        let linked = fs::read_dir(folder).map_err(failed)?.flatten();
        let linked = linked.filter_map(|entry| fs::read_link(entry.path()).ok());
        contents.extend(linked.filter_map(|target| target.file_name()?.to_str().map(str::to_owned)));
        sweep(&folder.join(CONTENT), &contents).map_err(failed)
    }
}

/// Makes the content of a plugin and leads its link there. Gives the content's name.
fn lay_out(shelf: &Shelf, folder: &Path) -> Result<String, TreeError> {
    let fresh = folder.join(CONTENT).join(FRESH);
    remove(&fresh)?;
    public_folder(&fresh)?;
    let mut hash = Sha256::new();
    let mut total = 0_u64;
    for (name, source, files) in &shelf.skills {
        for file in files {
            let bytes = shelf.tree.bytes(&file.path, SKILL_FILE_MAX_BYTES)?;
            total += bytes.len() as u64;
            if total > PLUGIN_MAX_BYTES {
                return Err(TreeError::TooLong(PLUGIN_MAX_BYTES));
            }
            let inside = join(&format!("skills/{name}"), file.path[source.len()..].trim_start_matches('/'));
            for piece in
                [inside.as_bytes(), &[0, u8::from(file.executable)], &bytes.len().to_be_bytes(), &bytes]
            {
                hash.update(piece);
            }
            let place = fresh.join(&inside);
            if let Some(parent) = place.parent() {
                public_folder(parent)?;
            }
            fs::write(&place, &bytes)?;
            fs::set_permissions(&place, Permissions::from_mode(if file.executable { 0o755 } else { 0o644 }))?;
        }
    }
    let digest = hash.finalize();
    let content: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let place = folder.join(CONTENT).join(&content);
    if place.is_dir() {
        remove(&fresh)?;
    } else {
        fs::rename(&fresh, &place)?;
    }
    let target = Path::new(CONTENT).join(&content);
    let link = folder.join(&shelf.plugin);
    if fs::read_link(&link).is_ok_and(|led| led == target) {
        return Ok(content);
    }
    let new = folder.join(LINK);
    remove(&new)?;
    symlink(target, &new)?;
    fs::rename(&new, &link)?;
    Ok(content)
}

/// A folder that everybody may read, whatever the process's mask: machines run as other users.
fn public_folder(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.is_dir()).collect();
    DirBuilder::new().recursive(true).mode(0o755).create(path)?;
    missing.iter().try_for_each(|made| fs::set_permissions(made, Permissions::from_mode(0o755)))
}

/// Removes all in a folder but what is named.
fn sweep(folder: &Path, kept: &[String]) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !kept.iter().any(|name| entry.file_name() == name.as_str()) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    let gone = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match gone {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        gone => gone,
    }
}
