//! `causerie acp`: the service as the agent of an editor, by the Agent Client Protocol (version 1) over standard input and output.
//!
//! ```text
//! editor ── lines of JSON-RPC ── this process ── the public interface ── service
//! ```
//! A session is a conversation, which begins with its first prompt. The agent works in the account's machine: it sees what a
//! prompt attaches and the account's workspace, not the folder of the editor.

mod prompt;
mod sessions;
mod updates;
mod wire;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use client::{ChatAnswer, Client, Question, Status};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

use self::prompt::Prompt;
use self::sessions::{OpenSession, OpenSessions, SessionFile};
use self::updates::{AnswerUpdates, text_chunk};
use self::wire::{EditorMessage, EditorSender, RpcError, parse_line, spawn_line_reader};
use crate::{ServiceConnection, TerminalError};

/// The version of the protocol.
const PROTOCOL: u32 = 1;
/// The setting of a session that selects its model.
const MODEL_OPTION: &str = "model";
/// Requests that are handled at once.
const REQUESTS_MAX: usize = 64;
/// Conversations in a page of the list of sessions.
const PAGE_CHATS: u64 = 100;
/// Codes of answers that ended early, and the reasons of the protocol for them.
const EARLY_ENDS: [(&str, &str); 3] = [
    ("OUTPUT_EXHAUSTED", "max_tokens"),
    ("TOO_MANY_STEPS", "max_turn_requests"),
    ("MODEL_REFUSED", "refusal"),
];

/// Serves an editor until it closes standard input.
///
/// # Errors
/// [`TerminalError::Client`] for an invalid address or key, [`TerminalError::Output`] for input that cannot be read.
pub async fn serve_editor(connection: ServiceConnection) -> Result<(), TerminalError> {
    let client = connection.open_client()?;
    let (sender, writer) = EditorSender::spawn_writer(io::stdout());
    let editor = Arc::new(Editor {
        client,
        sender,
        file: SessionFile::of_user(&connection.url),
        sessions: Mutex::default(),
        begun: AtomicU64::new(0),
    });
    let mut lines = spawn_line_reader(io::stdin());
    let requests = Arc::new(Semaphore::new(REQUESTS_MAX));
    while let Some(line) = lines.recv().await {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        match parse_line(&line) {
            Err((id, error)) => editor.sender.send_outcome(id, Err(error)).await,
            Ok(EditorMessage::Response) => {}
            Ok(EditorMessage::Notification { method, params }) => editor.take_notification(&method, &params),
            Ok(EditorMessage::Request { id, method, params }) => {
                // A cancellation may follow at once.
                let cancelled = match method.as_str() {
                    "session/prompt" => match editor.begin_prompt(&params) {
                        Ok(cancelled) => Some(cancelled),
                        Err(error) => {
                            editor.sender.send_outcome(id, Err(error)).await;
                            continue;
                        }
                    },
                    _ => None,
                };
                let permit = Arc::clone(&requests).acquire_owned().await;
                let editor = Arc::clone(&editor);
                tokio::spawn(async move {
                    let outcome = match cancelled {
                        Some(cancelled) => editor.answer_prompt(&params, cancelled).await,
                        None => editor.answer_request(&method, &params).await,
                    };
                    editor.sender.send_outcome(id, outcome).await;
                    drop(permit);
                });
            }
        }
    }
    // What answered requests have sent is still written; answers that are not complete go on at the service.
    drop(editor);
    if Arc::clone(&requests).available_permits() == REQUESTS_MAX {
        let _ = tokio::task::spawn_blocking(move || writer.join()).await;
    }
    Ok(())
}

/// The agent of one editor.
struct Editor {
    client: Client,
    sender: EditorSender,
    file: SessionFile,
    sessions: Mutex<OpenSessions>,
    /// The number of sessions that were begun here.
    begun: AtomicU64,
}

impl Editor {
    fn take_notification(&self, method: &str, params: &Value) {
        if method != "session/cancel" {
            return;
        }
        if let Some(session) =
            params["sessionId"].as_str().and_then(|id| self.lock_sessions().get(id).cloned())
            && let Some(cancel) = session.cancel
        {
            cancel.send_replace(true);
        }
    }

    async fn answer_request(&self, method: &str, params: &Value) -> Result<Value, RpcError> {
        match method {
            "initialize" => Ok(describe_agent()),
            "authenticate" => self.client.list_models("en").await.map(|_| json!({})).map_err(RpcError::from),
            "session/new" => self.begin_session(params).await,
            "session/load" => self.open_session(params, true).await,
            "session/resume" => self.open_session(params, false).await,
            "session/list" => self.list_sessions(params).await,
            "session/set_config_option" => self.set_option(params).await,
            "session/close" => Ok(self.close_session(session_of(params)?)),
            "session/delete" => self.delete_session(session_of(params)?).await,
            other => Err(RpcError::unknown_method(other)),
        }
    }

    async fn begin_session(&self, params: &Value) -> Result<Value, RpcError> {
        let cwd = folder_of(params)?;
        let options = self.list_options(None).await?;
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let id = format!("{:x}-{:x}-{number:x}", since_epoch.as_micros(), std::process::id());
        self.lock_sessions().insert(id.clone(), OpenSession { cwd, ..OpenSession::default() });
        Ok(json!({"sessionId": id, "configOptions": options}))
    }

    /// Opens the session of a conversation that exists, also of one that no editor began.
    async fn open_session(&self, params: &Value, replays: bool) -> Result<Value, RpcError> {
        let id = session_of(params)?;
        let cwd = folder_of(params)?;
        let kept = self.file.list_sessions().into_iter().find(|kept| kept.session == id);
        let chat = kept.map_or_else(|| id.to_owned(), |kept| kept.chat);
        let history = self.client.get_chat(&chat).await?;
        if replays {
            self.replay_history(id, history.messages, &chat).await;
        }
        let options = self.list_options(Some(&history.chat.model)).await?;
        let session = OpenSession { cwd, chat: Some(chat), ..OpenSession::default() };
        self.lock_sessions().insert(id.to_owned(), session);
        Ok(json!({"configOptions": options}))
    }

    async fn replay_history(&self, session: &str, messages: Vec<client::ChatMessage>, chat: &str) {
        for message in messages {
            if message.role == "USER" {
                let chunk = text_chunk("user_message_chunk", &message.id, &message.text);
                self.sender.send_update(session, &chunk).await;
                continue;
            }
            let answer = message.into_answer(chat);
            for update in AnswerUpdates::new().take_updates(&answer) {
                self.sender.send_update(session, &update).await;
            }
        }
    }

    /// Lists the sessions that editors began, a page of conversations at a time.
    async fn list_sessions(&self, params: &Value) -> Result<Value, RpcError> {
        let offset = match &params["cursor"] {
            Value::Null => 0,
            cursor => cursor
                .as_str()
                .and_then(|cursor| cursor.parse().ok())
                .ok_or_else(|| RpcError::invalid_params("the cursor is unknown: list from the start"))?,
        };
        let page = self.client.list_chats(offset, PAGE_CHATS).await?;
        let kept = self.file.list_sessions();
        let cwd = params["cwd"].as_str();
        let sessions: Vec<Value> = page
            .chats
            .iter()
            .filter_map(|chat| {
                let kept = kept.iter().rev().find(|kept| kept.chat == chat.chat_id)?;
                cwd.is_none_or(|cwd| cwd == kept.cwd).then(|| {
                    json!({
                        "sessionId": kept.session, "cwd": kept.cwd, "title": chat.title,
                        "updatedAt": chat.modified_at,
                    })
                })
            })
            .collect();
        let mut result = json!({"sessions": sessions});
        let end = offset + page.chats.len() as u64;
        if !page.chats.is_empty() && end < page.total_count {
            result["nextCursor"] = json!(end.to_string());
        }
        Ok(result)
    }

    async fn set_option(&self, params: &Value) -> Result<Value, RpcError> {
        let id = session_of(params)?;
        if params["configId"] != MODEL_OPTION {
            return Err(RpcError::invalid_params("the only setting is \"model\""));
        }
        let model =
            params["value"].as_str().ok_or_else(|| RpcError::invalid_params("value must be a text"))?;
        let options = self.list_options(Some(model)).await?;
        if options[0]["currentValue"] != model {
            return Err(RpcError::invalid_params(format!("unknown model {model:?}: choose one of the list")));
        }
        let mut sessions = self.lock_sessions();
        let session = sessions.get_mut(id).ok_or_else(|| RpcError::unknown_session(id))?;
        session.model = Some(model.to_owned());
        Ok(json!({"configOptions": options}))
    }

    /// Returns the settings of a session; those of a session without a model have the default.
    async fn list_options(&self, current: Option<&str>) -> Result<Value, RpcError> {
        let models = self.client.list_models("en").await?;
        let known = models.iter().find(|model| Some(model.id.as_str()) == current);
        let Some(shown) = known.or_else(|| models.iter().find(|model| model.default)).or(models.first())
        else {
            return Ok(json!([]));
        };
        let options: Vec<Value> = models
            .iter()
            .map(|model| json!({"value": model.id, "name": model.label, "description": model.description}))
            .collect();
        Ok(json!([{
            "id": MODEL_OPTION, "name": "Model", "category": "model", "type": "select",
            "currentValue": shown.id, "options": options,
        }]))
    }

    /// Forgets the session here and cancels its prompt. Its conversation stays.
    fn close_session(&self, id: &str) -> Value {
        if let Some(OpenSession { cancel: Some(cancel), .. }) = self.lock_sessions().remove(id) {
            cancel.send_replace(true);
        }
        json!({})
    }

    async fn delete_session(&self, id: &str) -> Result<Value, RpcError> {
        let open = self.lock_sessions().get(id).and_then(|session| session.chat.clone());
        let kept =
            || self.file.list_sessions().into_iter().find(|kept| kept.session == id).map(|kept| kept.chat);
        self.close_session(id);
        if let Some(chat) = open.or_else(kept) {
            match self.client.delete_chat(&chat).await {
                // It may be deleted elsewhere.
                Err(error) if error.status() != Some(404) => return Err(error.into()),
                Ok(()) | Err(_) => {}
            }
        }
        self.file.forget_session(id).map_err(not_kept)?;
        Ok(json!({}))
    }

    /// Marks a session as answering. Returns what tells the answer that it is cancelled.
    fn begin_prompt(&self, params: &Value) -> Result<watch::Receiver<bool>, RpcError> {
        let id = session_of(params)?;
        let mut sessions = self.lock_sessions();
        let session = sessions.get_mut(id).ok_or_else(|| RpcError::unknown_session(id))?;
        if session.cancel.is_some() {
            return Err(RpcError::invalid_request(
                "the session answers another prompt: wait for it or cancel it",
            ));
        }
        let (cancel, cancelled) = watch::channel(false);
        session.cancel = Some(cancel);
        Ok(cancelled)
    }

    async fn answer_prompt(
        &self,
        params: &Value,
        mut cancelled: watch::Receiver<bool>,
    ) -> Result<Value, RpcError> {
        let id = session_of(params)?;
        let outcome = self.run_prompt(id, &params["prompt"], &mut cancelled).await;
        if let Some(session) = self.lock_sessions().get_mut(id) {
            session.cancel = None;
        }
        outcome.map(|reason| json!({"stopReason": reason}))
    }

    /// Asks the question of a prompt and reports its answer. Returns why the turn ended.
    async fn run_prompt(
        &self,
        id: &str,
        blocks: &Value,
        cancelled: &mut watch::Receiver<bool>,
    ) -> Result<&'static str, RpcError> {
        let prompt = Prompt::parse_blocks(blocks)?;
        let Some(session) = self.lock_sessions().get(id).cloned() else { return Ok("cancelled") };
        let file_paths = tokio::select! {
            paths = prompt.upload_attachments(&self.client) => paths?,
            () = wait_for_cancel(cancelled) => return Ok("cancelled"),
        };
        let question = Question {
            chat_id: session.chat.clone(),
            model: session.model.clone(),
            file_paths,
            ..Question::new(prompt.text)
        };
        // It is unknown whether a sent question was accepted, so a cancellation waits for the response.
        let accepted = self.client.send(&question).await?;
        if session.chat.is_none() {
            self.note_chat(id, &accepted.chat_id, &session.cwd);
        }
        let (answer, stopped) = self.follow_answer(id, accepted, cancelled).await?;
        self.report_title(id, &answer.chat_id).await;
        let Some(failure) = &answer.error else { return Ok(if stopped { "cancelled" } else { "end_turn" }) };
        let early = EARLY_ENDS.iter().find(|(code, _)| *code == failure.code);
        early.map(|(_, reason)| *reason).ok_or_else(|| RpcError::failed_answer(failure))
    }

    /// Remembers the conversation that a session has become.
    fn note_chat(&self, id: &str, chat: &str, cwd: &str) {
        if let Some(session) = self.lock_sessions().get_mut(id) {
            session.chat = Some(chat.to_owned());
        }
        if let Err(error) = self.file.keep_session(id, chat, cwd) {
            report_problem(&not_kept(error).message);
        }
    }

    /// Reports the states of an answer up to the completed one; stops it once the prompt is cancelled. Returns whether it did.
    async fn follow_answer(
        &self,
        id: &str,
        mut answer: ChatAnswer,
        cancelled: &mut watch::Receiver<bool>,
    ) -> Result<(ChatAnswer, bool), RpcError> {
        let mut updates = AnswerUpdates::new();
        let mut states = self.client.stream(&answer);
        let mut stopped = false;
        loop {
            let state = tokio::select! {
                state = states.next() => state?,
                () = wait_for_cancel(cancelled), if !stopped => {
                    stopped = true;
                    self.client.stop_chat(&answer.chat_id).await?;
                    continue;
                }
            };
            let Some(state) = state else { break };
            self.report_state(id, &mut updates, &state).await;
            answer = state;
        }
        if answer.status != Status::Completed {
            // The stream may end before completion, so the current state decides.
            answer = self.client.collect_answer(&answer.chat_id, &answer.id).await?;
            self.report_state(id, &mut updates, &answer).await;
        }
        Ok((answer, stopped))
    }

    async fn report_state(&self, id: &str, updates: &mut AnswerUpdates, answer: &ChatAnswer) {
        for update in updates.take_updates(answer) {
            self.sender.send_update(id, &update).await;
        }
    }

    /// Reports the title of a conversation, which its first question gives it. An editor can do without.
    async fn report_title(&self, id: &str, chat: &str) {
        let Ok(page) = self.client.list_chats(0, PAGE_CHATS).await else { return };
        if let Some(chat) = page.chats.iter().find(|known| known.chat_id == chat) {
            let update = json!({
                "sessionUpdate": "session_info_update", "title": chat.title, "updatedAt": chat.modified_at,
            });
            self.sender.send_update(id, &update).await;
        }
    }

    fn lock_sessions(&self) -> MutexGuard<'_, OpenSessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the response to `initialize`. The editor decides whether it speaks this version.
fn describe_agent() -> Value {
    json!({
        "protocolVersion": PROTOCOL,
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": {"image": true, "audio": false, "embeddedContext": true},
            "mcpCapabilities": {"http": false, "sse": false},
            "sessionCapabilities": {"list": {}, "resume": {}, "delete": {}, "close": {}},
        },
        "agentInfo": {"name": "causerie", "title": "Causerie", "version": env!("CARGO_PKG_VERSION")},
        "authMethods": [{
            "id": "api-key",
            "name": "API key",
            "description": "Set CAUSERIE_URL and CAUSERIE_API_KEY in the editor's settings of this agent",
        }],
    })
}

fn session_of(params: &Value) -> Result<&str, RpcError> {
    params["sessionId"].as_str().ok_or_else(|| RpcError::invalid_params("sessionId must be a text"))
}

fn folder_of(params: &Value) -> Result<String, RpcError> {
    let cwd =
        params["cwd"].as_str().ok_or_else(|| RpcError::invalid_params("cwd must be an absolute path"))?;
    Ok(cwd.to_owned())
}

fn not_kept(error: io::Error) -> RpcError {
    let error = client::Error::File { path: "editor-sessions.json".into(), source: error };
    RpcError::from(error)
}

/// Waits until the prompt is cancelled; forever if it no longer can be.
async fn wait_for_cancel(cancelled: &mut watch::Receiver<bool>) {
    if cancelled.wait_for(|cancelled| *cancelled).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Reports to standard error, which editors keep as the agent's log.
fn report_problem(message: &str) {
    let _ = io::Write::write_all(&mut io::stderr(), format!("causerie acp: {message}\n").as_bytes());
}
