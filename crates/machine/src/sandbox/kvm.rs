//! A trial of the host's processor: can it run virtual machines?

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

/// The longest time that QEMU takes to create a machine.
const CREATED_WITHIN: Duration = Duration::from_secs(5);
/// The most of QEMU's words that are passed on.
const WORDS_MAX: usize = 200;

/// Has QEMU create a machine on the processor's virtualisation, and end. Nothing runs in it; so success is no proof that
/// a kernel boots, but a failure costs little.
///
/// # Errors
/// The reason, for the operator.
pub async fn try_kvm(qemu: &Path) -> Result<(), String> {
    if let Err(error) = File::options().read(true).write(true).open("/dev/kvm") {
        return Err(format!("/dev/kvm cannot be opened: {error}"));
    }
    let created = timeout(CREATED_WITHIN, create(qemu)).await;
    let output = created.map_err(|_| "QEMU takes too long with KVM".to_owned())?;
    let output = output.map_err(|error| format!("running QEMU: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let line = words.lines().find(|line| !line.trim().is_empty()).unwrap_or("no reason is given");
    let line: String = line.chars().filter(|letter| !letter.is_control()).take(WORDS_MAX).collect();
    Err(format!("KVM does not work here: {line}"))
}

async fn create(qemu: &Path) -> std::io::Result<std::process::Output> {
    let arguments =
        "-S -M microvm -accel kvm -cpu max -m 64M -nodefaults -no-user-config -display none -monitor stdio";
    let mut process = Command::new(qemu)
        .args(arguments.split(' '))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut input) = process.stdin.take() {
        // It may have ended already; its status tells.
        let _ = input.write_all(b"quit\n").await;
    }
    process.wait_with_output().await
}
