//! Publishes the files of plugins below the data folder, where machines see them: the files of skills, and all files
//! of a plugin with MCP servers.
//!
//! ```text
//! <folder>/causerie             -> .content/3f9a…   one link per plugin, replaced atomically
//! <folder>/.content/3f9a…/skills/contract-review/SKILL.md
//! <folder>/.servers.json                           the MCP servers, replaced atomically after the links
//! ```
//! The name in `.content` is a hash of its content, so nothing there ever changes: while a plugin is replaced, a
//! running machine continues with consistent skills, because it sees this folder itself.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::Path;

use protocol::mcp::{McpServersFile, SERVERS_FILE};
use sha2::{Digest, Sha256};

use crate::library::{PluginLibrary, SkillFiles};
use crate::tree::{TreeError, join_path};
use crate::{McpServer, Notice, PLUGIN_MAX_BYTES, SKILL_FILE_MAX_BYTES};

const CONTENT: &str = ".content";
const FRESH: &str = ".fresh";
const LINK: &str = ".link";

/// The reason why files could not be published.
#[derive(Debug, thiserror::Error)]
#[error("publishing the files of skills in {folder} failed: {source}")]
pub struct PublishError {
    folder: String,
    #[source]
    source: io::Error,
}

impl PluginLibrary {
    /// Publishes the files of all skills in `folder`, which is created if necessary, and removes files of deleted
    /// plugins. If a plugin's files cannot be read, its previous files stay and a notice is recorded. Blocks.
    ///
    /// # Errors
    /// Returns [`PublishError`] if the folder cannot be written.
    pub fn publish_skills(&mut self, folder: &Path) -> Result<(), PublishError> {
        let failed = |source| PublishError { folder: folder.display().to_string(), source };
        public_folder(folder).and_then(|()| public_folder(&folder.join(CONTENT))).map_err(failed)?;
        let mut retained = vec![CONTENT.to_owned(), SERVERS_FILE.to_owned()];
        let mut contents = Vec::new();
        for skill_files in &self.shelves {
            match lay_out(skill_files, folder) {
                Ok(content) => contents.push(content),
                Err(TreeError::Io(error)) => return Err(failed(error)),
                Err(error) => self.notices.push(Notice {
                    folder: skill_files.tree.display_path("").trim_end_matches('/').to_owned(),
                    file: skill_files.tree.display_path(""),
                    line: None,
                    text: format!("the files of {} are not published: {error}", skill_files.plugin),
                    skipped: true,
                }),
            }
            retained.push(skill_files.plugin.clone());
        }
        remove_others(folder, &retained).map_err(failed)?;
        self.publish_servers(folder).map_err(failed)?;
        // Retains the previous content of a plugin that could not be published.
        let linked = fs::read_dir(folder).map_err(failed)?.flatten();
        let linked = linked.filter_map(|entry| fs::read_link(entry.path()).ok());
        contents.extend(linked.filter_map(|target| target.file_name()?.to_str().map(str::to_owned)));
        remove_others(&folder.join(CONTENT), &contents).map_err(failed)
    }
}

impl PluginLibrary {
    /// Writes the list of MCP servers, each with a version that depends on its plugin's files.
    fn publish_servers(&mut self, folder: &Path) -> io::Result<()> {
        for McpServer { plugin, spec, .. } in &mut self.servers {
            spec.version.clear();
            let content = fs::read_link(folder.join(plugin.as_str())).unwrap_or_default();
            let mut hash = Sha256::new();
            hash.update(content.as_os_str().as_encoded_bytes());
            hash.update(serde_json::to_vec(spec)?);
            spec.version = short_hex(&hash.finalize());
        }
        let servers = self.servers.iter().map(|server| server.spec.clone()).collect();
        let bytes = serde_json::to_vec(&McpServersFile { servers })?;
        let place = folder.join(SERVERS_FILE);
        if fs::read(&place).is_ok_and(|before| before == bytes) {
            return Ok(());
        }
        let fresh = folder.join(CONTENT).join(FRESH);
        remove_path(&fresh)?;
        fs::write(&fresh, bytes)?;
        fs::set_permissions(&fresh, Permissions::from_mode(0o644))?;
        fs::rename(&fresh, place)
    }
}

fn short_hex(digest: &[u8]) -> String {
    domain::hex::encode_hex(&digest[..digest.len().min(16)])
}

/// Creates the content of a plugin, unless it exists, and points its link to it. Writes nothing if both exist, so that
/// a service starts on a full disk. Returns the content's name.
fn lay_out(skill_files: &SkillFiles, folder: &Path) -> Result<String, TreeError> {
    let mut lengths = Vec::new();
    let mut content = hash_files(skill_files, |inside, _, bytes| {
        lengths.push((inside.to_owned(), bytes.len() as u64));
        Ok(())
    })?;
    let place = folder.join(CONTENT).join(&content);
    // A loss of power may leave files without their content.
    let is_whole = |(inside, length): &(String, u64)| {
        fs::metadata(place.join(inside)).is_ok_and(|metadata| metadata.len() == *length)
    };
    if !(place.is_dir() && lengths.iter().all(is_whole)) {
        remove_path(&place)?;
        content = write_content(skill_files, folder)?;
    }
    let target = Path::new(CONTENT).join(&content);
    let link = folder.join(&skill_files.plugin);
    if fs::read_link(&link).is_ok_and(|led| led == target) {
        return Ok(content);
    }
    let new = folder.join(LINK);
    remove_path(&new)?;
    symlink(target, &new)?;
    fs::rename(&new, &link)?;
    Ok(content)
}

/// Writes the content of a plugin. Returns its name, computed from the files as they were written.
fn write_content(skill_files: &SkillFiles, folder: &Path) -> Result<String, TreeError> {
    let fresh = folder.join(CONTENT).join(FRESH);
    remove_path(&fresh)?;
    public_folder(&fresh)?;
    let content = hash_files(skill_files, |inside, executable, bytes| {
        let place = fresh.join(inside);
        if let Some(parent) = place.parent() {
            public_folder(parent)?;
        }
        fs::write(&place, bytes)?;
        fs::set_permissions(&place, Permissions::from_mode(if executable { 0o755 } else { 0o644 }))
    })?;
    let place = folder.join(CONTENT).join(&content);
    if place.is_dir() {
        remove_path(&fresh)?;
    } else {
        fs::rename(&fresh, &place)?;
    }
    Ok(content)
}

/// Calls `visit` with the path, the executable bit and the bytes of each file to publish. Returns the name of the
/// content: a hash of all of them.
fn hash_files(
    skill_files: &SkillFiles,
    mut visit: impl FnMut(&str, bool, &[u8]) -> io::Result<()>,
) -> Result<String, TreeError> {
    let mut hash = Sha256::new();
    let mut total = 0_u64;
    let mut visited = HashSet::new();
    let skills =
        skill_files.skills.iter().map(|(name, source, files)| (format!("skills/{name}"), source, files));
    // Skills come first, because they take precedence over other files at the same path.
    let whole = skill_files.whole.iter().map(|(root, files)| (String::new(), root, files));
    for (below, source, files) in skills.chain(whole) {
        for file in files {
            let inside = join_path(&below, file.path[source.len()..].trim_start_matches('/'));
            if !visited.insert(inside.clone()) {
                continue;
            }
            let bytes = skill_files.tree.read_bytes(&file.path, SKILL_FILE_MAX_BYTES)?;
            total += bytes.len() as u64;
            if total > PLUGIN_MAX_BYTES {
                return Err(TreeError::TooLong(PLUGIN_MAX_BYTES));
            }
            for piece in
                [inside.as_bytes(), &[0, u8::from(file.executable)], &bytes.len().to_be_bytes(), &bytes]
            {
                hash.update(piece);
            }
            visit(&inside, file.executable, &bytes)?;
        }
    }
    Ok(short_hex(&hash.finalize()))
}

/// Creates a folder that every user may read, regardless of the umask: machines run as other users.
fn public_folder(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.is_dir()).collect();
    DirBuilder::new().recursive(true).mode(0o755).create(path)?;
    missing.iter().try_for_each(|made| fs::set_permissions(made, Permissions::from_mode(0o755)))
}

/// Removes everything in a folder except the given names.
fn remove_others(folder: &Path, retained: &[String]) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !retained.iter().any(|name| entry.file_name() == name.as_str()) {
            remove_path(&entry.path())?;
        }
    }
    Ok(())
}

fn remove_path(path: &Path) -> io::Result<()> {
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
