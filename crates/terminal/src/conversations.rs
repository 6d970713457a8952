//! Conversations on a terminal.

use std::io::{self, Write};

use client::{Chat, ChatWithMessages, Status};

use crate::answer::{Printer, Style};
use crate::text::{neutralize_controls, one_line};
use crate::{ServiceConnection, TerminalError};

/// The number of conversations that are listed.
const LISTED_MAX: u64 = 100;

/// Lists the newest conversations: id, time of the last change, title.
///
/// # Errors
/// As [`TerminalError`] says.
pub async fn list_conversations(connection: &ServiceConnection, json: bool) -> Result<(), TerminalError> {
    let client = connection.open_client()?;
    let mut out = io::stdout();
    if json {
        return Ok(writeln!(out, "{}", client.chats_json(0, LISTED_MAX).await?)?);
    }
    let page = client.list_chats(0, LISTED_MAX).await?;
    for chat in &page.chats {
        writeln!(out, "{}", format_chat(chat))?;
    }
    let more = page.total_count.saturating_sub(page.chats.len() as u64);
    if more > 0 {
        writeln!(io::stderr(), "· {more} older ones are not shown")?;
    }
    Ok(())
}

fn format_chat(chat: &Chat) -> String {
    // To the second: `2026-11-23T02:41:07`.
    let changed: String = chat.modified_at.chars().take(19).collect();
    let answering = if chat.status == Status::InProgress { "  (answering)" } else { "" };
    format!("{}  {}  {}{answering}", chat.chat_id, one_line(&changed), one_line(&chat.title))
}

/// Prints a conversation: its questions, quoted, and its answers with their sources.
///
/// # Errors
/// As [`TerminalError`] says.
pub async fn show_conversation(
    connection: &ServiceConnection,
    chat_id: &str,
    json: bool,
    plain: bool,
) -> Result<(), TerminalError> {
    let client = connection.open_client()?;
    let mut out = io::stdout();
    if json {
        return Ok(writeln!(out, "{}", client.chat_json(chat_id).await?)?);
    }
    let ChatWithMessages { chat, messages } = client.get_chat(chat_id).await?;
    writeln!(out, "# {}\n", one_line(&chat.title))?;
    for message in messages {
        if message.role == "USER" {
            for line in neutralize_controls(&message.text).lines() {
                writeln!(out, "> {line}")?;
            }
        } else {
            // Notes about tools would be out of place in a transcript.
            let mut printer = Printer::new(io::stdout(), io::sink(), Style::for_process(plain));
            printer.finish_answer(&message.into_answer(&chat.chat_id))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Stops the answer of a conversation.
///
/// # Errors
/// As [`TerminalError`] says.
pub async fn stop_answer(connection: &ServiceConnection, chat_id: &str) -> Result<(), TerminalError> {
    let before = connection.open_client()?.stop_chat(chat_id).await?;
    let said = match before.status {
        Status::InProgress => "stopping the answer",
        Status::Completed => "no answer is being written",
    };
    Ok(writeln!(io::stderr(), "· {said}")?)
}
