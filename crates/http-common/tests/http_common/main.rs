//! Tests of HTTP building blocks with complete requests and responses.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod compression;
mod direct;
mod downloads;
mod events;
mod raw_files;
mod uploads;

use axum::body::Body;
use axum::response::Response;
use domain::id::AccountId;
use http_body_util::BodyExt;
use workspace::{AskedPath, Quota, Workspace, Workspaces};

struct WorkspaceFixture {
    _root: tempfile::TempDir,
    workspace: Workspace,
}

impl WorkspaceFixture {
    async fn new() -> Self {
        Self::with_quota(Quota { disk_free_min_bytes: 0, ..Quota::default() }).await
    }

    async fn with_quota(quota: Quota) -> Self {
        let root = tempfile::tempdir().unwrap();
        let workspaces = Workspaces::new(root.path(), quota).unwrap();
        let workspace = workspaces.provision(AccountId::from_random(1), None).await.unwrap();
        Self { _root: root, workspace }
    }

    fn write_file(&self, name: &str, content: &[u8]) {
        std::fs::write(self.workspace.host_dir().join(name), content).unwrap();
    }

    fn read_file(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.workspace.host_dir().join(name)).unwrap()
    }
}

fn asked_path(path: &str) -> AskedPath {
    AskedPath::from_url(path)
}

async fn body_bytes(body: Body) -> Vec<u8> {
    body.collect().await.unwrap().to_bytes().to_vec()
}

fn header_text<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}
