//! Tests untrusted archives.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use tar::{Builder, EntryType, Header};

use super::*;

/// An archive that is built entry by entry, with unchanged names.
struct Hostile(Builder<Vec<u8>>);

impl Hostile {
    fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    fn put_entry(mut self, path: &str, kind: EntryType, mode: u32, link: &str, content: &[u8]) -> Self {
        let mut header = Header::new_gnu();
        // The crate's setters refuse the values that these tests need.
        let old = header.as_old_mut();
        old.name[..path.len()].copy_from_slice(path.as_bytes());
        old.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(4711);
        header.set_mtime(1_000_000);
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.0.append(&header, content).expect("memory");
        self
    }

    fn put_file(self, path: &str, content: &str) -> Self {
        self.put_entry(path, EntryType::Regular, 0o644, "", content.as_bytes())
    }

    fn put_link(self, path: &str, target: &str) -> Self {
        self.put_entry(path, EntryType::Symlink, 0o777, target, b"")
    }

    fn into_bytes(self) -> Vec<u8> {
        self.0.into_inner().expect("memory")
    }
}

/// Unpacks into a folder beside a file that must stay unchanged.
fn unpack_to_temp(archive: &[u8]) -> (tempfile::TempDir, Result<UnpackedTree, MachineImageError>) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("outside"), "untouched").expect("a file");
    fs::create_dir(folder.path().join("root")).expect("a folder");
    let report = unpack_archive(archive, &folder.path().join("root"), &Cancel::default());
    assert_eq!(fs::read_to_string(folder.path().join("outside")).expect("a file"), "untouched");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2, "nothing is made outside");
    (folder, report)
}

#[test]
fn nothing_is_written_outside() {
    let outside = "/tmp/machine-image-test-outside";
    let archive = Hostile::new()
        .put_file("../outside", "changed")
        .put_file("usr/../../outside", "changed")
        .put_link("up", "..")
        .put_file("up/outside", "changed")
        .put_link("absolute", "/tmp")
        .put_file("absolute/machine-image-test-outside", "changed")
        .put_link("file", "../outside")
        .put_file("file", "replaced")
        .put_entry("hard", EntryType::Link, 0o644, "../outside", b"")
        .put_entry("hard2", EntryType::Link, 0o644, "up/outside", b"")
        .put_entry("hard3", EntryType::Link, 0o644, "/etc/passwd", b"")
        .put_file(outside, "absolute paths begin at the tree")
        .put_file("usr/bin/ok", "fine")
        .put_entry("usr/bin/again", EntryType::Link, 0o755, "./usr/bin/ok", b"")
        .into_bytes();
    let (folder, report) = unpack_to_temp(&archive);
    let report = report.expect("the rest is unpacked");
    let root = folder.path().join("root");
    assert!(!Path::new(outside).exists());
    assert_eq!(report.left_out_count, 7, "{:?}", report.left_out);
    assert!(report.left_out[0].contains("leads out"), "{:?}", report.left_out);
    assert_eq!(fs::read_to_string(root.join("file")).expect("a file"), "replaced");
    assert!(!root.join("file").is_symlink() && root.join("up").is_symlink());
    assert_eq!(fs::metadata(root.join("usr/bin/ok")).expect("a file").nlink(), 2);
}

#[test]
fn unpack_drops_rights_and_devices() {
    let archive = Hostile::new()
        .put_entry("bin/su", EntryType::Regular, 0o6755, "", b"program")
        .put_entry("bin/secret", EntryType::Regular, 0o600, "", b"text")
        .put_entry("opt", EntryType::Directory, 0o1700, "", b"")
        .put_entry("opt/disk", EntryType::Block, 0o666, "", b"")
        .put_entry("opt/pipe", EntryType::Fifo, 0o666, "", b"")
        .put_entry("opt/null", EntryType::Char, 0o666, "", b"")
        .into_bytes();
    let (folder, report) = unpack_to_temp(&archive);
    assert_eq!(report.expect("the files").left_out_count, 3);
    let root = folder.path().join("root");
    let own = fs::metadata(folder.path()).expect("a folder").uid();
    for (path, mode) in [("bin/su", 0o755), ("bin/secret", 0o644), ("opt", 0o755), ("bin", 0o755)] {
        let metadata = fs::metadata(root.join(path)).expect("an entry");
        assert_eq!((metadata.permissions().mode() & 0o7777, metadata.uid()), (mode, own), "{path}");
    }
    assert_eq!(fs::metadata(root.join("bin/su")).expect("a file").mtime(), 1_000_000);
    assert_eq!(fs::metadata(root.join("opt")).expect("a folder").mtime(), 1_000_000);
    assert_eq!(fs::read_dir(root.join("opt")).expect("a folder").count(), 0);
}

#[test]
fn unpack_leaves_out_machine_places() {
    let archive = Hostile::new()
        .put_link("workspace", "/etc")
        .put_file("agent", "not the agent")
        .put_file("proc/1/mem", "x")
        .put_file("tmp/x", "x")
        .put_file("var/log/dpkg.log", "x")
        .put_file("var/cache/apt/x", "x")
        .put_file("var/cache/fontconfig/x", "kept")
        .put_file("var/lib/dpkg/status-old", "x")
        .put_link("var/tmp", "/workspace")
        .put_file("usr/.wh.gone", "")
        .into_bytes();
    let (folder, report) = unpack_to_temp(&archive);
    assert_eq!(
        report.expect("the rest").left_out,
        ["usr/.wh.gone: a deletion from another layer; export the whole \
         container instead"]
    );
    let root = folder.path().join("root");
    let names: Vec<_> =
        fs::read_dir(&root).expect("a folder").map(|entry| entry.expect("one").file_name()).collect();
    assert_eq!(names, ["var"]);
    assert!(root.join("var/cache/fontconfig/x").exists());
}

#[test]
fn unpack_refuses_oversized_headers() {
    let mut long = Header::new_gnu();
    long.set_entry_type(EntryType::GNULongName);
    long.set_size(1 << 40);
    long.set_cksum();
    let refused = |archive: &[u8]| match unpack_to_temp(archive).1 {
        Err(MachineImageError::Archive(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert!(refused(long.as_bytes()).contains("larger than 64 KiB"));
    let mut cut = Hostile::new().put_file("usr/x", "text").into_bytes();
    cut.truncate(600);
    assert!(refused(&cut).contains("cannot be read"));
    assert!(refused(&[b'x'; 1024]).contains("cannot be read"));
    let record = b"20 GNU.sparse.x=yes\n";
    let sparse = Hostile::new().put_entry("x", EntryType::XHeader, 0o644, "", record).into_bytes();
    assert!(refused(&sparse).contains("sparse"));
    for wrong in [&b"99999999999999999999 path=x\n"[..], b"5 path=x\n", b"path", b"0 \n", b"9 path=x"] {
        let archive = Hostile::new().put_entry("x", EntryType::XHeader, 0o644, "", wrong).into_bytes();
        assert!(refused(&archive).contains("a header cannot be read"), "{wrong:?}");
    }
}

#[test]
fn long_names_and_compression_are_understood() {
    let name = format!("usr/{}/file", "n".repeat(150));
    let pax = format!("30 mtime=1234567890.123456789\n{} path={name}\n", name.len() + 10);
    let archive = Hostile::new()
        .put_entry("x", EntryType::XHeader, 0o644, "", pax.as_bytes())
        .put_file("short", "by pax")
        .put_entry("x", EntryType::GNULongName, 0o644, "", format!("{name}2\0").as_bytes())
        .put_file("short", "by gnu")
        .into_bytes();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&archive).expect("memory");
    let zstd = zstd::encode_all(&archive[..], 1).expect("memory");
    let mut digests = Vec::new();
    for form in [archive, gzip.finish().expect("memory"), zstd] {
        let plain = archive::decompress_archive(&form[..]).expect("memory");
        let mut bytes = Vec::new();
        { plain }.read_to_end(&mut bytes).expect("memory");
        let (folder, report) = unpack_to_temp(&bytes);
        digests.push(report.expect("an archive").sha256);
        let root = folder.path().join("root");
        assert_eq!(fs::read_to_string(root.join(&name)).expect("a file"), "by pax");
        assert_eq!(fs::metadata(root.join(&name)).expect("a file").mtime(), 1_234_567_890);
        assert_eq!(fs::read_to_string(root.join(format!("{name}2"))).expect("a file"), "by gnu");
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]));
}

#[test]
fn a_build_that_is_stopped_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let cancel = Cancel::default();
    cancel.cancel();
    let archive = Hostile::new().put_file("usr/x", "text").into_bytes();
    assert!(matches!(
        unpack_archive(&archive[..], folder.path(), &cancel),
        Err(MachineImageError::Cancelled)
    ));
}

#[test]
fn a_system_gets_what_machines_need() {
    let archive = Hostile::new()
        .put_entry("usr/bin/dash", EntryType::Regular, 0o755, "", b"program")
        .put_link("bin", "usr/bin")
        .put_link("usr/bin/sh", "/usr/bin/dash")
        .put_file("usr/lib/os-release", "PRETTY_NAME=\"A system\"\n")
        .put_link("etc/os-release", "/../../usr/lib/os-release")
        .put_file("etc/shadow", "root:secret")
        .put_link("etc/passwd", "/outside")
        .put_entry("home", EntryType::Directory, 0o755, "", b"")
        .put_file("srv/x", "kept")
        .into_bytes();
    let (folder, report) = unpack_to_temp(&archive);
    report.expect("a system");
    let root = folder.path().join("root");
    layout::complete_tree(&root).expect("a system");
    for name in ["agent", "workspace", "index", "plugins", "proc", "dev", "tmp", "run", "srv/x"] {
        assert!(root.join(name).symlink_metadata().is_ok_and(|entry| !entry.is_symlink()), "{name}");
    }
    assert!(!root.join("home").exists() && !root.join("etc/shadow").exists());
    assert!(fs::read_to_string(root.join("etc/passwd")).expect("a file").contains("user:x:1000:"));
    assert_eq!(fs::read_link(root.join("var/tmp")).expect("a link"), Path::new("/tmp"));
    assert_eq!(layout::read_file(&root, "etc/os-release").as_deref(), Some("PRETTY_NAME=\"A system\"\n"));

    let refused = |archive: Hostile| {
        let (folder, report) = unpack_to_temp(&archive.into_bytes());
        report.expect("an archive");
        layout::complete_tree(&folder.path().join("root")).expect_err("no system").to_string()
    };
    assert!(refused(Hostile::new().put_file("manifest.json", "[]")).contains("docker export"));
    assert!(refused(Hostile::new().put_link("bin/sh", "/bin/sh")).contains("bin/sh is missing"));
    let shell = || Hostile::new().put_entry("bin/sh", EntryType::Regular, 0o755, "", b"program");
    assert!(refused(shell().put_link("etc", "/tmp")).contains("/etc is not a folder"));
    assert!(refused(shell().put_link("var", "/tmp")).contains("/var is not a folder"));
    assert!(refused(shell().put_file("etc/passwd/x", "")).contains("passwd is a folder"));
}
