//! Embeds the plugin that is part of the service: every file below `plugins/` at the root of the project.

use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins").canonicalize()?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    collect_files(&folder, &mut files)?;
    files.sort();
    let mut source = String::from("&[\n");
    for path in files {
        let inside = path.strip_prefix(&folder).map_err(io::Error::other)?.display().to_string();
        let executable = fs::metadata(&path)?.permissions().mode() & 0o100 != 0;
        let line =
            format!("    ({inside:?}, include_bytes!({:?}), {executable}),\n", path.display().to_string());
        source.write_str(&line).map_err(io::Error::other)?;
    }
    source.push_str("]\n");
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo names no OUT_DIR"))?;
    fs::write(Path::new(&out).join("embedded.rs"), source)
}

fn collect_files(folder: &Path, files: &mut Vec<std::path::PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect_files(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
