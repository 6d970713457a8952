//! Unpacks the embedded agent into the data folder, under its digest.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const ARCHIVE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agent.zst"));
const SHA256: &str = include_str!(concat!(env!("OUT_DIR"), "/agent.sha256"));
/// The largest agent that is unpacked, in bytes.
const PROGRAM_MAX_BYTES: usize = 256 * 1024 * 1024;

/// The path of the unpacked program.
pub(crate) fn unpack_agent(data: &Path) -> Result<PathBuf, String> {
    if ARCHIVE.is_empty() {
        return Err("this program was built without the agent: build it with `make build`".to_owned());
    }
    let folder = data.join("agent").join(&SHA256[..16]);
    let program = folder.join("causerie-guest");
    if program.is_file() {
        return Ok(program);
    }
    let text = |error: std::io::Error| format!("unpacking the agent failed: {error}");
    let bytes = zstd::bulk::decompress(ARCHIVE, PROGRAM_MAX_BYTES).map_err(text)?;
    std::fs::create_dir_all(&folder).map_err(text)?;
    // Machines run as other users and need search permission on each folder.
    for folder in [data.join("agent"), folder.clone()] {
        std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).map_err(text)?;
    }
    let fresh = folder.join(format!(".fresh-{}", std::process::id()));
    let mut file = std::fs::File::create(&fresh).map_err(text)?;
    file.write_all(&bytes).map_err(text)?;
    file.set_permissions(PermissionsExt::from_mode(0o755)).map_err(text)?;
    file.sync_all().map_err(text)?;
    drop(file);
    std::fs::rename(&fresh, &program).map_err(text)?;
    Ok(program)
}
