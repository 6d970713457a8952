//! The log of the service: lines are buffered, and a thread writes them to standard error.
//!
//! Writers never wait for the consumer of the log. The buffer is bounded; lines that do not fit are dropped and
//! counted, and a line reports the count. The buffer is flushed at shutdown and on panic.

use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::DefaultFields;
use tracing_subscriber::fmt::{FormatFields, MakeWriter};

/// The size of the buffer in bytes; more than is logged while a disk stalls.
const WAITING_MAX_BYTES: usize = 4 << 20;
/// The time that lines are batched before a write.
const BATCH_DELAY: Duration = Duration::from_millis(5);
/// From this size on, in bytes, a batch is written immediately.
const BATCH_BYTES: usize = 64 << 10;
/// The maximum wait for the consumer of the log at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// The format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// The log filter and format.
#[derive(Debug, Clone)]
pub struct LogSettings {
    /// The format of lines.
    pub format: LogFormat,
    /// The minimum severity: a level, or several for parts of the program.
    pub level: String,
}

/// The log of this process; unset before it is initialized.
static LINES: OnceLock<LogLines> = OnceLock::new();

/// Starts the log of a service. `fields` writes the fields of lines of text.
pub fn init_service_log(wanted: &LogSettings, fields: impl for<'w> FormatFields<'w> + Send + Sync + 'static) {
    let terminal = io::stderr().is_terminal();
    let lines = LINES.get_or_init(|| LogLines::new(wanted.format));
    let writer = std::thread::Builder::new().name("log".to_owned());
    if writer.spawn(move || lines.write_all_to(|batch| io::stderr().lock().write_all(batch))).is_err() {
        // Without the thread, lines are written synchronously.
        lines.lock_buffer().writer = Writing::Nobody;
    }
    install_subscriber(wanted, terminal, lines, fields);
}

/// Initializes the unbuffered log of a command.
pub fn begin_plain(wanted: &LogSettings) {
    install_subscriber(wanted, io::stderr().is_terminal(), io::stderr, DefaultFields::new());
}

fn install_subscriber<W, F>(wanted: &LogSettings, terminal: bool, writer: W, fields: F)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
    F: for<'w> FormatFields<'w> + Send + Sync + 'static,
{
    // Invalid filters were rejected with the settings.
    let filter = EnvFilter::try_new(&wanted.level).unwrap_or_default();
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    match wanted.format {
        LogFormat::Text => lines.with_ansi(terminal).with_target(false).fmt_fields(fields).init(),
        LogFormat::Json => {
            lines.json().flatten_event(true).with_current_span(false).with_span_list(false).init()
        }
    }
}

/// Waits until all lines so far are written, or the consumer is too slow.
pub fn flush_log() {
    if let Some(lines) = LINES.get() {
        lines.flush_within(SHUTDOWN_TIMEOUT);
    }
}

/// Returns the number of lines dropped since the start.
pub fn dropped_lines() -> u64 {
    LINES.get().map_or(0, |lines| lines.lock_buffer().dropped)
}

/// Returns the log for lines that are already formatted: JSON, or text if standard error is not a terminal.
pub fn direct_log() -> Option<&'static LogLines> {
    static DIRECT: OnceLock<bool> = OnceLock::new();
    let lines = LINES.get()?;
    (lines.format == LogFormat::Json || !DIRECT.get_or_init(|| io::stderr().is_terminal())).then_some(lines)
}

/// The log buffer with its format.
pub struct LogLines {
    /// The format of lines.
    pub format: LogFormat,
    gathered: Mutex<LogBuffer>,
    /// Signals that lines are waiting or a flush was requested.
    wanted: Condvar,
    /// Signals that lines were written.
    written: Condvar,
}

/// The lines that wait to be written.
struct LogBuffer {
    bytes: Vec<u8>,
    hurry: bool,
    writer: Writing,
    dropped: u64,
    dropped_told: u64,
}

/// The state of the writer thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writing {
    /// The thread waits for a notification.
    Idle,
    /// The thread will check the buffer by itself.
    Busy,
    /// The thread is writing a batch.
    Out,
    /// The writer thread does not run.
    Nobody,
}

impl LogLines {
    fn new(format: LogFormat) -> Self {
        let gathered =
            LogBuffer { bytes: Vec::new(), hurry: false, writer: Writing::Busy, dropped: 0, dropped_told: 0 };
        Self { format, gathered: Mutex::new(gathered), wanted: Condvar::new(), written: Condvar::new() }
    }

    fn lock_buffer(&self) -> MutexGuard<'_, LogBuffer> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds complete lines. Never blocks.
    pub fn append_lines(&self, line: &[u8]) {
        let mut gathered = self.lock_buffer();
        if gathered.bytes.len() + line.len() > WAITING_MAX_BYTES {
            gathered.dropped += 1;
            return;
        }
        if gathered.writer == Writing::Nobody {
            drop(gathered);
            let _ = io::stderr().lock().write_all(line);
            return;
        }
        gathered.bytes.extend_from_slice(line);
        if gathered.writer == Writing::Idle {
            gathered.writer = Writing::Busy;
            self.wanted.notify_one();
        } else if gathered.bytes.len() >= BATCH_BYTES && gathered.bytes.len() - line.len() < BATCH_BYTES {
            self.wanted.notify_one();
        }
    }

    /// Waits until all previously added lines are written, at most for this time.
    fn flush_within(&self, at_most: Duration) {
        let until = Instant::now() + at_most;
        let mut gathered = self.lock_buffer();
        while gathered.writer != Writing::Nobody
            && (!gathered.bytes.is_empty() || gathered.writer == Writing::Out)
        {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            gathered.hurry = true;
            self.wanted.notify_one();
            gathered = self.written.wait_timeout(gathered, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Writes the lines for ever.
    fn write_all_to(&self, mut write: impl FnMut(&[u8]) -> io::Result<()>) {
        let mut batch = Vec::new();
        loop {
            self.fill_batch(&mut batch);
            // An error of the log cannot be reported anywhere.
            let _ = write(&batch);
            batch.clear();
            if batch.capacity() > 2 * BATCH_BYTES {
                batch = Vec::new();
            }
            self.lock_buffer().writer = Writing::Busy;
            self.written.notify_all();
        }
    }

    /// Waits for lines and moves them into the empty batch.
    fn fill_batch(&self, batch: &mut Vec<u8>) {
        let mut gathered = self.lock_buffer();
        while gathered.bytes.is_empty() {
            gathered.writer = Writing::Idle;
            gathered = self.wanted.wait(gathered).unwrap_or_else(PoisonError::into_inner);
        }
        gathered.writer = Writing::Busy;
        let more = |gathered: &mut LogBuffer| !gathered.hurry && gathered.bytes.len() < BATCH_BYTES;
        let waited = self.wanted.wait_timeout_while(gathered, BATCH_DELAY, more);
        gathered = waited.unwrap_or_else(PoisonError::into_inner).0;
        std::mem::swap(&mut gathered.bytes, batch);
        let lost = gathered.dropped - gathered.dropped_told;
        gathered.dropped_told = gathered.dropped;
        (gathered.hurry, gathered.writer) = (false, Writing::Out);
        drop(gathered);
        if lost > 0 {
            self.report_dropped(lost, batch);
        }
    }

    fn report_dropped(&self, lost: u64, batch: &mut Vec<u8>) {
        let message = "log lines dropped: the consumer is too slow";
        let time = Now::read_clock();
        let time = time.as_str();
        // Writing into memory does not fail.
        let _ = match self.format {
            LogFormat::Text => writeln!(batch, "{time}  WARN {message} lines={lost}"),
            LogFormat::Json => writeln!(
                batch,
                "{{\"timestamp\":\"{time}\",\"level\":\"WARN\",\"message\":\"{message}\",\"lines\":{lost},\
                 \"target\":\"causerie::log\"}}"
            ),
        };
    }
}

impl Write for &LogLines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.append_lines(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for &'static LogLines {
    type Writer = &'static LogLines;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

/// The length of `2026-11-21T09:30:00`.
const SECOND_BYTES: usize = 19;

thread_local! {
    /// The second of the last line, and its formatted time.
    static SECOND: Cell<(u64, [u8; SECOND_BYTES])> = const { Cell::new((u64::MAX, [b'0'; SECOND_BYTES])) };
}

/// The current time in the format of the log: `2026-11-21T09:30:00.123456Z`.
pub struct Now([u8; SECOND_BYTES + 8]);

impl Now {
    /// Reads the clock.
    pub fn read_clock() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (mut known, mut second) = SECOND.get();
        if known != since.as_secs() {
            known = since.as_secs();
            let time = i64::try_from(known).ok().and_then(|time| jiff::Timestamp::from_second(time).ok());
            let text = time.unwrap_or_default().to_string();
            if let Some(text) = text.as_bytes().first_chunk() {
                second = *text;
            }
            SECOND.set((known, second));
        }
        let mut text = [b'Z'; SECOND_BYTES + 8];
        text[..SECOND_BYTES].copy_from_slice(&second);
        text[SECOND_BYTES] = b'.';
        let mut micros = since.subsec_micros();
        for digit in text[SECOND_BYTES + 1..SECOND_BYTES + 7].iter_mut().rev() {
            *digit = b'0' + (micros % 10) as u8;
            micros /= 10;
        }
        Self(text)
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use super::*;

    /// Creates a log whose thread passes each batch to the test.
    fn log_with_receiver() -> (Arc<LogLines>, mpsc::Receiver<Vec<u8>>) {
        let lines = Arc::new(LogLines::new(LogFormat::Text));
        // The channel holds one batch; the next waits until it is received.
        let (batches, taken) = mpsc::sync_channel(0);
        let writer = lines.clone();
        std::thread::spawn(move || {
            writer.write_all_to(|batch| batches.send(batch.to_vec()).map_err(|_| io::Error::other("over")))
        });
        (lines, taken)
    }

    #[test]
    fn flush_waits_for_ordered_lines() {
        let (lines, taken) = log_with_receiver();
        let reader = std::thread::spawn(move || {
            taken.iter().take_while(|batch| batch != b"end\n").flatten().collect()
        });
        for number in 0..10_000 {
            lines.append_lines(format!("line {number}\n").as_bytes());
        }
        lines.flush_within(Duration::from_secs(60));
        assert!(lines.lock_buffer().bytes.is_empty() && lines.lock_buffer().writer != Writing::Out);
        lines.append_lines(b"end\n");
        let read: Vec<u8> = reader.join().expect("it reads to the end");
        let wanted: String = (0..10_000).map(|number| format!("line {number}\n")).collect();
        assert!(read == wanted.as_bytes());
    }

    #[test]
    fn log_drops_lines_beyond_bound() {
        let (lines, taken) = log_with_receiver();
        lines.append_lines(b"first\n");
        lines.flush_within(Duration::from_millis(1));
        let line = [b'x'; 1 << 10];
        for _ in 0..3 * (WAITING_MAX_BYTES >> 10) {
            lines.append_lines(&line);
        }
        let dropped = lines.lock_buffer().dropped;
        assert!(dropped >= (WAITING_MAX_BYTES >> 10) as u64, "{dropped}");
        lines.flush_within(Duration::from_millis(1));
        let mut read = Vec::new();
        while !read.ends_with(format!("the consumer is too slow lines={dropped}\n").as_bytes()) {
            read.extend(taken.recv_timeout(Duration::from_secs(60)).expect("it goes on"));
            assert!(read.len() < 2 * WAITING_MAX_BYTES);
        }
        assert!(read.starts_with(b"first\n"));
    }

    #[test]
    fn now_formats_like_tracing_time() {
        let now = Now::read_clock();
        let parsed: jiff::Timestamp = now.as_str().parse().expect("a time");
        assert!(jiff::Timestamp::now().duration_since(parsed).unsigned_abs() < Duration::from_secs(60));
        assert_eq!(now.as_str().len(), "2026-11-21T09:30:00.123456Z".len());
    }
}
