//! Reads the tree as text.

use std::fs;
use std::path::Path;

/// The largest file that is read, in bytes; larger ones are data.
const FILE_MAX_BYTES: u64 = 1024 * 1024;
/// The maximum depth of folders.
const DEPTH_MAX: usize = 12;
/// Hidden folders that belong to the tree.
const HIDDEN: [&str; 3] = [".ci", ".cargo", ".config"];

#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Its path from the root of the tree, with slashes.
    pub path: String,
    pub text: String,
}

/// The text files of the tree, except generated, ignored and third-party ones.
#[derive(Debug, Clone, Default)]
pub struct SourceTree {
    /// The files by path.
    pub files: Vec<SourceFile>,
    /// Every path, including folders and data.
    pub paths: Vec<String>,
    /// The absolute path of the tree.
    pub root: String,
}

impl SourceTree {
    /// Reads the tree under `root`.
    ///
    /// # Errors
    /// Fails if a folder or file cannot be read.
    pub fn read_from(root: &Path) -> Result<Self, String> {
        let root = root.canonicalize().map_err(|error| format!("{}: {error}", root.display()))?;
        let mut tree = Self { root: root.display().to_string(), ..Self::default() };
        tree.read_folder(&root, "", 0)?;
        tree.files.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(tree)
    }

    /// Creates a tree of these paths and texts.
    #[must_use]
    pub fn from_texts(files: &[(&str, &str)]) -> Self {
        let files: Vec<SourceFile> = files
            .iter()
            .map(|(path, text)| SourceFile { path: (*path).into(), text: (*text).into() })
            .collect();
        let paths = files.iter().map(|file| file.path.clone()).collect();
        Self { files, paths, root: "/nowhere/at/all".into() }
    }

    /// Returns the text of the file at `path`.
    #[must_use]
    pub fn file_text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    /// Returns the files whose paths have this suffix.
    pub fn with_suffix<'a>(&'a self, suffix: &'a str) -> impl Iterator<Item = &'a SourceFile> {
        self.files.iter().filter(move |file| file.path.ends_with(suffix))
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("{prefix} is deeper than {DEPTH_MAX} folders"));
        }
        let describe = |error: std::io::Error| format!("{}: {error}", folder.display());
        for entry in fs::read_dir(folder).map_err(describe)? {
            let entry = entry.map_err(describe)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type().map_err(describe)?;
            let foreign = depth == 0 && ["target", "data"].contains(&name.as_str());
            if foreign || (name.starts_with('.') && kind.is_dir() && !HIDDEN.contains(&name.as_str())) {
                continue;
            }
            self.paths.push(path.clone());
            if kind.is_dir() {
                self.read_folder(&entry.path(), &format!("{path}/"), depth + 1)?;
            } else if kind.is_file() && entry.metadata().map_err(describe)?.len() <= FILE_MAX_BYTES {
                let bytes = fs::read(entry.path()).map_err(|error| format!("{path}: {error}"))?;
                if let Ok(text) = String::from_utf8(bytes) {
                    self.files.push(SourceFile { path, text });
                }
            }
        }
        Ok(())
    }
}
