//! The sessions of editors: which conversation each one is, and in which folder the editor began it. The service does not
//! know these folders, so they are kept in a file of the user.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// The most sessions that the file keeps; the oldest go first.
const KEPT_MAX: usize = 1000;

/// A session whose conversation exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptSession {
    pub(crate) session: String,
    pub(crate) chat: String,
    /// The folder of the editor.
    pub(crate) cwd: String,
    /// The address of the service.
    service: String,
}

/// The file of sessions.
#[derive(Debug)]
pub(crate) struct SessionFile {
    path: Option<PathBuf>,
    service: String,
}

impl SessionFile {
    /// Creates the file of this user's sessions with a service; without a home folder, nothing is kept.
    pub(crate) fn of_user(service: &str) -> Self {
        let variable =
            |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let state = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")));
        Self {
            path: state.map(|state| state.join("causerie/editor-sessions.json")),
            service: service.to_owned(),
        }
    }

    /// Returns the sessions with this service, the newest last.
    pub(crate) fn list_sessions(&self) -> Vec<KeptSession> {
        let kept = self.path.as_deref().map(read_sessions).unwrap_or_default();
        kept.into_iter().filter(|kept| kept.service == self.service).collect()
    }

    /// Adds a session, or moves it to the end.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn keep_session(&self, session: &str, chat: &str, cwd: &str) -> io::Result<()> {
        let kept = KeptSession {
            session: session.to_owned(),
            chat: chat.to_owned(),
            cwd: cwd.to_owned(),
            service: self.service.clone(),
        };
        self.change_sessions(|sessions| {
            sessions.retain(|known| known.session != kept.session);
            sessions.push(kept);
            let surplus = sessions.len().saturating_sub(KEPT_MAX);
            sessions.drain(..surplus);
        })
    }

    /// Removes a session.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn forget_session(&self, session: &str) -> io::Result<()> {
        self.change_sessions(|sessions| sessions.retain(|known| known.session != session))
    }

    /// Changes the file under a lock, because editors run several agents, and replaces it whole.
    fn change_sessions(&self, change: impl FnOnce(&mut Vec<KeptSession>)) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let lock = fs::File::create(path.with_extension("lock"))?;
        lock.lock()?;
        let mut sessions = read_sessions(path);
        change(&mut sessions);
        let written = path.with_extension("new");
        fs::write(&written, serde_json::to_vec_pretty(&sessions)?)?;
        fs::rename(written, path)
    }
}

/// Returns what the file has; nothing if it is absent or damaged, since conversations do not depend on it.
fn read_sessions(path: &Path) -> Vec<KeptSession> {
    fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// A session of this process.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenSession {
    pub(crate) cwd: String,
    /// Absent until the first prompt.
    pub(crate) chat: Option<String>,
    /// The chosen model, for the prompts that follow.
    pub(crate) model: Option<String>,
    /// Set while a prompt is being answered; `true` cancels it.
    pub(crate) cancel: Option<watch::Sender<bool>>,
}

/// The sessions of this process, by id.
pub(crate) type OpenSessions = HashMap<String, OpenSession>;

#[cfg(test)]
mod tests {
    use super::*;

    fn file_in(folder: &Path, service: &str) -> SessionFile {
        SessionFile { path: Some(folder.join("state/sessions.json")), service: service.to_owned() }
    }

    #[test]
    fn sessions_are_kept_by_service() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, other) = (file_in(folder.path(), "http://one"), file_in(folder.path(), "http://other"));
        one.keep_session("s1", "c1", "/a").expect("it is written");
        other.keep_session("s2", "c2", "/b").expect("it is written");
        one.keep_session("s3", "c3", "/c").expect("it is written");
        one.keep_session("s1", "c1", "/a").expect("it is written");
        let ids = |file: &SessionFile| -> Vec<String> {
            file.list_sessions().into_iter().map(|kept| kept.session).collect()
        };
        assert_eq!(ids(&one), ["s3", "s1"]);
        assert_eq!(ids(&other), ["s2"]);
        one.forget_session("s3").expect("it is written");
        assert_eq!(ids(&one), ["s1"]);
    }

    #[test]
    fn oldest_sessions_go_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = file_in(folder.path(), "http://one");
        let full: Vec<KeptSession> = (0..KEPT_MAX)
            .map(|number| KeptSession {
                session: format!("s{number}"),
                chat: "c".to_owned(),
                cwd: "/".to_owned(),
                service: "http://one".to_owned(),
            })
            .collect();
        file.change_sessions(|sessions| *sessions = full).expect("it is written");
        file.keep_session("new", "c", "/").expect("it is written");
        let kept = file.list_sessions();
        assert_eq!((kept.len(), kept[0].session.as_str()), (KEPT_MAX, "s1"));
    }

    #[test]
    fn damaged_file_holds_no_sessions() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = file_in(folder.path(), "http://one");
        file.keep_session("s1", "c1", "/a").expect("it is written");
        fs::write(file.path.as_ref().expect("a path"), "{").expect("it is written");
        assert_eq!(file.list_sessions(), []);
        file.keep_session("s2", "c2", "/a").expect("it is written");
        assert_eq!(file.list_sessions().len(), 1);
    }
}
