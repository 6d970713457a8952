//! Tests the workspace on real files.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod escapes;
mod files;
mod folders;
mod hostile;
mod moves;
mod normal_forms;
mod quotas;
mod resumable;

use std::convert::Infallible;
use std::path::PathBuf;

use bytes::Bytes;
use domain::id::AccountId;
use futures_util::{Stream, StreamExt, stream};
use workspace::{
    AskedPath, Destination, FileName, PlacedUpload, Quota, Workspace, WorkspaceError, WorkspacePath,
    Workspaces,
};

/// One provisioned account in its own folder, next to something that must stay out of reach.
struct WorkspaceHost {
    root: tempfile::TempDir,
    workspace: Workspace,
}

impl WorkspaceHost {
    async fn new() -> Self {
        Self::with_quota(Quota { disk_free_min_bytes: 0, ..Quota::default() }).await
    }

    async fn with_quota(quota: Quota) -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("secret"), "secret").unwrap();
        let workspaces = Workspaces::new(root.path().join("all"), quota).unwrap();
        let workspace = workspaces.provision(AccountId::from_random(1), None).await.unwrap();
        Self { root, workspace }
    }

    /// Returns a workspace path on the host.
    fn host_path(&self, path: &str) -> PathBuf {
        self.workspace.host_dir().join(path)
    }

    fn create_link(&self, target: &str, path: &str) {
        std::os::unix::fs::symlink(target, self.host_path(path)).unwrap();
    }

    async fn upload_text(&self, to: &str, name: &str, content: &str) -> Result<PlacedUpload, WorkspaceError> {
        let destination = Destination::Folder(asked_path(to));
        self.workspace
            .upload_file(&destination, &FileName::from_upload(name).unwrap(), content_chunks(content))
            .await
    }

    async fn read_file(&self, path: &str) -> Result<Vec<u8>, WorkspaceError> {
        let file = self.workspace.open_file(&asked_path(path)).await?;
        let mut stream = file.stream_range(0..u64::MAX);
        let mut content = Vec::new();
        while let Some(chunk) = stream.next().await {
            content.extend(chunk?);
        }
        Ok(content)
    }

    /// Returns the names in the home folder, including hidden ones.
    fn names_at_home(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.workspace.host_dir()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn asked_path(path: &str) -> AskedPath {
    AskedPath::from_url(path)
}

fn workspace_path(text: &str) -> WorkspacePath {
    WorkspacePath::parse(text).unwrap()
}

fn content_chunks(content: &str) -> impl Stream<Item = Result<Bytes, Infallible>> + use<> {
    let chunks: Vec<_> =
        content.as_bytes().chunks(7).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    stream::iter(chunks)
}
