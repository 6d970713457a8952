//! Fuzzes upload forms: an accepted file is stored completely at the answered path, a refused one leaves nothing
//! behind, and the chunks of the body make no difference.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use domain::id::AccountId;
use http_common::limits::STALL_TIMEOUT;
use http_common::receive_upload;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use workspace::{Quota, Workspace, Workspaces};

/// The operator's limit, which inputs can reach.
const FILE_MAX_BYTES: u64 = 1024;

/// Runs one input.
///
/// # Panics
/// Panics when a promise is broken.
pub fn try_input(data: &[u8]) {
    let Some((&size, form)) = data.split_first() else { return };
    HOST.with(|host| {
        let host = host.get_or_init(UploadWorkspace::new);
        let at_once = host.upload_form(form, form.len().max(1));
        let in_pieces = host.upload_form(form, usize::from(size % 23) + 1);
        // Of two errors, either may be reported first.
        assert_eq!(at_once.ok(), in_pieces.ok(), "by how it arrives");
    });
}

thread_local! {
    static HOST: OnceCell<UploadWorkspace> = const { OnceCell::new() };
}

struct UploadWorkspace {
    _root: TempDir,
    runtime: Runtime,
    workspace: Workspace,
}

impl UploadWorkspace {
    fn new() -> Self {
        let root = tempfile::tempdir_in("/dev/shm").expect("a folder");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let quota = Quota { disk_free_min_bytes: 0, ..Quota::default() };
        let workspaces = Workspaces::new(root.path().join("accounts"), quota).expect("workspaces");
        let provisioned = runtime.block_on(workspaces.provision(AccountId::from_random(1), None));
        let workspace = provisioned.expect("a workspace");
        std::fs::create_dir(workspace.host_dir().join("to")).expect("a folder");
        Self { _root: root, runtime, workspace }
    }

    /// Uploads a form. Returns the stored content, or the error message.
    fn upload_form(&self, form: &[u8], size: usize) -> Result<Vec<u8>, String> {
        let kind = HeaderValue::from_static("multipart/form-data; boundary=X");
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, kind)]);
        let pieces: Vec<_> = form.chunks(size).map(|piece| Ok::<_, std::io::Error>(piece.to_vec())).collect();
        let body = Body::from_stream(futures_util::stream::iter(pieces));
        let received = receive_upload(&self.workspace, &headers, body, Some(FILE_MAX_BYTES), STALL_TIMEOUT);
        let received = self.runtime.block_on(received);
        let files = list_files(&self.workspace.host_dir());
        match received {
            Ok(uploaded) => {
                let [file] = files.as_slice() else { panic!("{files:?} after {uploaded:?}") };
                let content = std::fs::read(file).expect("the file");
                assert_eq!(content.len() as u64, uploaded.size);
                assert!(!content.is_empty() && uploaded.size <= FILE_MAX_BYTES);
                assert!(form.windows(content.len()).any(|part| part == content), "content that was not sent");
                self.delete_upload(file);
                Ok(content)
            }
            Err(refused) => {
                assert!(files.is_empty(), "{files:?} after {refused}");
                Err(refused.to_string())
            }
        }
    }

    /// Deletes the file, and also its folder if it is temporary.
    fn delete_upload(&self, file: &Path) {
        let folder = file.parent().expect("a folder");
        std::fs::remove_file(file).expect("it can be deleted");
        if folder.parent().is_some_and(|above| above.ends_with("uploads/.tmp")) {
            std::fs::remove_dir(folder).expect("it can be deleted");
        }
    }
}

fn list_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { list_files(&path) } else { vec![path] }).collect()
}
