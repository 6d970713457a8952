//! Archives that no built-in reader unpacks: the machine's `bsdtar` converts them to tar, in a process that may write
//! nothing.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek};
use std::process::{Child, Command, Stdio};
use std::thread;

use documents::{
    ExtractError, ForeignFormat, HEAD_BYTES, INPUT_MAX_BYTES, UNPACKED_MAX_BYTES, UnpackedArchive,
};

use super::jail::Jail;
use super::supervise::PATH;

/// The program, of libarchive.
const BSDTAR: &str = "bsdtar";
/// Converts the archive on standard input. Names are kept unchanged, since they are only shown. With blocks of this size, the
/// files before a damaged one are complete. The format keeps names in any encoding.
const ARGUMENTS: [&str; 7] = ["-P", "-b", "1", "--format=gnutar", "-cf", "-", "@-"];

/// Opens a document of the workspace if it is an archive that the program unpacks.
pub(super) fn open_foreign(jail: &Jail, path: &str) -> Option<(ForeignFormat, File)> {
    let (_, mut file) = jail.open_file(path).ok()?;
    let mut head = Vec::new();
    (&mut file).take(HEAD_BYTES as u64).read_to_end(&mut head).ok()?;
    let format = ForeignFormat::from_signature(&head)?;
    file.rewind().ok()?;
    Some((format, file))
}

/// Unpacks an archive.
///
/// # Errors
/// Fails for an archive without files that would be read, and if the machine lacks the program.
pub(super) fn unpack_archive(format: ForeignFormat, mut file: File) -> Result<UnpackedArchive, ExtractError> {
    let mut bytes = Vec::new();
    (&mut file).take(INPUT_MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > INPUT_MAX_BYTES {
        return Err(ExtractError::TooLarge { size: file.metadata()?.len() });
    }
    format.check_archive(&bytes)?;
    drop(bytes);
    file.rewind()?;
    let (tar, is_whole) = read_output(start_unpacker(BSDTAR, format, file)?)?;
    Ok(UnpackedArchive { format, tar, is_whole })
}

fn start_unpacker(program: &'static str, format: ForeignFormat, file: File) -> Result<Child, ExtractError> {
    let mut command = Command::new(program);
    command.args(ARGUMENTS).env_clear().env("PATH", PATH).env("LC_ALL", "C.UTF-8").current_dir("/");
    command.stdin(file).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => ExtractError::NoProgram { kind: format.archive_description(), program },
        _ => ExtractError::Read(error),
    })
}

/// Returns the output of the program within its bound, and whether it is complete and the program reported no error.
fn read_output(mut child: Child) -> std::io::Result<(Vec<u8>, bool)> {
    let (Some(stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(std::io::Error::other("the program has no pipes"));
    };
    let mut tar = Vec::new();
    let (read, complaints) = thread::scope(|scope| {
        // Both pipes are emptied, so that the program waits for neither.
        let complaints = scope.spawn(|| std::io::copy(&mut stderr, &mut std::io::sink()));
        let read = stdout.take(UNPACKED_MAX_BYTES).read_to_end(&mut tar);
        if tar.len() as u64 >= UNPACKED_MAX_BYTES {
            let _ = child.kill();
        }
        (read, complaints.join())
    });
    let status = child.wait()?;
    read?;
    let is_silent = matches!(complaints, Ok(Ok(0)));
    let is_all = (tar.len() as u64) < UNPACKED_MAX_BYTES;
    Ok((tar, status.success() && is_silent && is_all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpack_archive_missing_program_is_named() {
        let file = tempfile::tempfile().expect("a file");
        let error = start_unpacker("no-such-program", ForeignFormat::Rar, file).expect_err("there is none");
        assert!(error.is_passing());
        let expected =
            "a RAR archive cannot be read without the program no-such-program; pack its files as ZIP";
        assert_eq!(error.to_string(), expected);
    }
}
