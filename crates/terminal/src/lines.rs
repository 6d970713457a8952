//! Lines that a person types, with editing and a history, or the lines of a pipe.

use std::io;

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use tokio::task::spawn_blocking;

/// Reads lines from standard input.
#[derive(Debug)]
pub struct StdinLines {
    /// Absent while a line is read, and for good after an interrupted read.
    editor: Option<DefaultEditor>,
}

impl StdinLines {
    /// Creates a reader with an empty history.
    ///
    /// # Errors
    /// When the terminal cannot be used.
    pub fn new() -> io::Result<Self> {
        Ok(Self { editor: Some(DefaultEditor::new().map_err(io::Error::other)?) })
    }

    /// Reads a line, which stays in the history; `None` at the end of the input.
    ///
    /// # Errors
    /// When the input cannot be read.
    pub async fn read_line(&mut self, prompt: &str) -> io::Result<Option<String>> {
        let Some(mut editor) = self.editor.take() else { return Ok(None) };
        let prompt = prompt.to_owned();
        let reading = spawn_blocking(move || {
            let line = loop {
                match editor.readline(&prompt) {
                    // As in shells, Ctrl-C at the prompt drops what was typed.
                    Err(ReadlineError::Interrupted) => {}
                    other => break other,
                }
            };
            if let Ok(line) = &line {
                // The history is a convenience.
                let _ = editor.add_history_entry(line);
            }
            (editor, line)
        });
        let (editor, line) = reading.await.map_err(io::Error::other)?;
        self.editor = Some(editor);
        match line {
            Ok(line) => Ok(Some(line)),
            Err(ReadlineError::Eof) => Ok(None),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}
