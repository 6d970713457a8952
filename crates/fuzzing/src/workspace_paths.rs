//! Fuzzes paths: none leads out of the workspace, lexically or through links, and the shown form resolves to the same
//! place.

use std::cell::OnceCell;
use std::os::unix::fs::symlink;

use domain::id::AccountId;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use workspace::{
    AskedPath, FileName, NAME_MAX_BYTES, PATH_MAX_BYTES, Quota, Workspace, WorkspacePath, WorkspacePathError,
    Workspaces,
};

const INSIDE: u64 = 6;
const OUTSIDE: &[u8] = b"not for anybody";

/// Runs one input.
///
/// # Panics
/// Panics when a promise is broken.
pub fn try_input(data: &[u8]) {
    HOST.with(|host| host.get_or_init(LinkedWorkspace::new).assert_inside(data));
    let parsed = WorkspacePath::parse(data);
    match &parsed {
        Ok(path) => {
            assert!(!climbs_above_start(data));
            assert_clean(path);
            assert_eq!(WorkspacePath::parse(path.as_bytes()).as_ref(), Ok(path), "read again");
            let leads_back = |asked: AskedPath| asked.candidates().any(|candidate| candidate == path);
            assert!(leads_back(AskedPath::from_text(&path.to_string())), "as it is shown: {path}");
            let encoded: String = path.as_bytes().iter().map(|byte| format!("%{byte:02X}")).collect();
            assert!(leads_back(AskedPath::from_url(&encoded)), "encoded: {path}");
        }
        Err(WorkspacePathError::Outside) => assert!(climbs_above_start(data)),
        Err(WorkspacePathError::Nul) => assert!(data.contains(&0)),
        Err(WorkspacePathError::TooLong) => assert!(data.len() > PATH_MAX_BYTES),
    }
    if let Ok(name) = FileName::from_upload(data) {
        let bytes = name.as_bytes();
        assert!(!bytes.is_empty() && bytes.len() <= NAME_MAX_BYTES && !matches!(bytes, b"." | b".."));
        assert!(!bytes.iter().any(|byte| matches!(byte, 0 | b'/')) && data.ends_with(bytes));
    }
}

/// Returns true if the path climbs above its start, by an independent count.
fn climbs_above_start(path: &[u8]) -> bool {
    let mut depth = 0_i64;
    path.split(|byte| *byte == b'/').any(|name| {
        depth += match name {
            b"" | b"." => 0,
            b".." => -1,
            _ => 1,
        };
        depth < 0
    })
}

fn assert_clean(path: &WorkspacePath) {
    let bytes = path.as_bytes();
    assert!(bytes.len() <= PATH_MAX_BYTES && !bytes.contains(&0) && path.to_string().starts_with('/'));
    let mut names = bytes.split(|byte| *byte == b'/');
    assert!(path.is_home() || names.all(|name| !matches!(name, b"" | b"." | b"..")), "{path}");
}

thread_local! {
    static HOST: OnceCell<LinkedWorkspace> = const { OnceCell::new() };
}

/// A workspace with links that lead anywhere, next to a file outside.
struct LinkedWorkspace {
    _root: TempDir,
    runtime: Runtime,
    workspace: Workspace,
}

impl LinkedWorkspace {
    fn new() -> Self {
        let root = tempfile::tempdir_in("/dev/shm").expect("a folder");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let quota = Quota { disk_free_min_bytes: 0, ..Quota::default() };
        let workspaces = Workspaces::new(root.path().join("accounts"), quota).expect("workspaces");
        let provisioned = runtime.block_on(workspaces.provision(AccountId::from_random(1), None));
        let workspace = provisioned.expect("a workspace");
        let home = workspace.host_dir();
        let outside = home.parent().expect("its folder").join("x");
        std::fs::write(&outside, OUTSIDE).expect("a file outside");
        std::fs::create_dir(home.join("d")).expect("a folder");
        std::fs::write(home.join("d/f"), b"inside").expect("a file");
        let outside = outside.to_str().expect("a plain name").to_owned();
        for (link, target) in [
            ("o", ".."),
            ("p", "../x"),
            ("a", outside.as_str()),
            ("r", "/"),
            ("d/u", "../../x"),
            ("l", "d"),
            ("s", "l/f"),
            ("c", "c"),
        ] {
            symlink(target, home.join(link)).expect("a link");
        }
        Self { _root: root, runtime, workspace }
    }

    /// Asserts that only the inner file is ever opened.
    fn assert_inside(&self, data: &[u8]) {
        let Ok(text) = std::str::from_utf8(data) else { return };
        for asked in [AskedPath::from_url(text), AskedPath::from_text(text)] {
            asked.candidates().for_each(assert_clean);
            if let Ok(file) = self.runtime.block_on(self.workspace.open_file(&asked)) {
                assert_eq!(file.size, INSIDE, "{text:?} leads out");
            }
        }
    }
}
