//! Embeds the agent's static program, compressed.
//!
//! `CAUSERIE_GUEST` gives the absolute path of the program, as `make build` sets it; by default the output of
//! `make guest` for this profile is used. If it is missing, an empty file is embedded, so that a fresh clone
//! can be checked; a service built this way reports the missing agent when a machine starts. Writes `agent.zst`
//! and `agent.sha256` (hexadecimal, of the uncompressed program) to `OUT_DIR`; both are empty without an agent.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use sha2::{Digest, Sha256};

/// Compression levels: small for releases, fast for debug builds.
const LEVEL_RELEASE: i32 = 15;
const LEVEL_DEBUG: i32 = 3;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CAUSERIE_GUEST");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let release = env::var("PROFILE")? == "release";
    let (archive, digest) = match find_agent_program(&out, release)? {
        Some(path) => {
            println!("cargo::rerun-if-changed={}", path.display());
            let program = fs::read(&path)?;
            let level = if release { LEVEL_RELEASE } else { LEVEL_DEBUG };
            let hex: String = Sha256::digest(&program).iter().map(|byte| format!("{byte:02x}")).collect();
            (zstd::bulk::compress(&program, level)?, hex)
        }
        None => (Vec::new(), String::new()),
    };
    fs::write(out.join("agent.zst"), archive)?;
    fs::write(out.join("agent.sha256"), digest)?;
    Ok(())
}

/// Finds the agent's program, if there is one. An explicit path without a file is an error.
fn find_agent_program(out: &Path, release: bool) -> Result<Option<PathBuf>, String> {
    if let Some(given) = env::var_os("CAUSERIE_GUEST") {
        let given = PathBuf::from(given);
        if given.is_absolute() && given.is_file() {
            return Ok(Some(given));
        }
        return Err(format!(
            "CAUSERIE_GUEST is not the absolute path of a file: {}; run `make build`",
            given.display()
        ));
    }
    // OUT_DIR is <target>/<profile>/build/<package>/out.
    let profile = if release { "release" } else { "debug" };
    let left = out.ancestors().nth(4).map(|target| target.join("guest").join(profile).join("causerie-guest"));
    Ok(left.filter(|path| path.is_file()))
}
