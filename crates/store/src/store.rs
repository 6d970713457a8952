//! The handle of the store: opens the database, passes work to the engine's threads, and closes it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use domain::id::NodeId;
use telemetry::Histogram;

use tokio::sync::{oneshot, watch};

use crate::abort::Abort;
use crate::confirmation::Confirmation;
use crate::copy::{self, DatabaseExporter};
use crate::error::StoreError;
use crate::job::{JobCall, StoreJob};
use crate::metrics::{QueueDepths, StoreMetrics};
use crate::migrations::SchemaVersion;
use crate::options::StoreOptions;
#[cfg(feature = "postgres")]
use crate::postgres;
use crate::queue::Queue;
use crate::sql::{Result, RowExt, Sql, SqlExt};
use crate::{migrations, sqlite};

/// The maximum number of waiting writes. Further callers wait for room.
const WRITES_WAITING_MAX: usize = 4096;
/// The maximum number of waiting reads.
const READS_WAITING_MAX: usize = 4096;
/// The interval at which running statements are interrupted after an abort.
const ABORT_INTERVAL: Duration = Duration::from_millis(20);
/// The fewest reader threads.
const READERS_MIN: usize = 4;
/// The maximum number of reader threads.
const READERS_MAX: usize = 16;

/// The default number of connections that write to PostgreSQL. The server groups their commits, so more of
/// them gain little.
#[cfg(feature = "postgres")]
const PG_WRITERS: usize = 16;
/// The default number of connections that read from PostgreSQL.
#[cfg(feature = "postgres")]
const PG_READERS: usize = 8;
/// The maximum number of connections of each kind.
#[cfg(feature = "postgres")]
const PG_CONNECTIONS_MAX: usize = 256;

/// The database of the service. Clones share it.
///
/// A write that returned `Ok` is durable. Dropping the last clone ends the threads in the background;
/// [`Store::close`] waits for them.
#[derive(Clone)]
pub struct Store {
    inner: Arc<StoreInner>,
}

struct StoreInner {
    place: Backend,
    writes: Arc<Queue<Box<dyn StoreJob>>>,
    reads: Arc<Queue<Box<dyn StoreJob>>>,
    metrics: Arc<StoreMetrics>,
    abort: Arc<Abort>,
    threads: Mutex<WorkerThreads>,
}

/// The lock that allows one process at a time to serve a database. Dropping it releases the lock.
#[derive(Debug)]
pub struct ExclusiveLock {
    lost: Option<watch::Receiver<bool>>,
    /// `None` if nobody else can acquire the lock while this process lives.
    confirmation: Option<Arc<Confirmation>>,
    _hold: Option<oneshot::Sender<()>>,
}

impl ExclusiveLock {
    fn of_file() -> Self {
        Self { lost: None, confirmation: None, _hold: None }
    }

    /// Returns the last moment at which this process certainly held the lock, as the time since the host was booted. `None`
    /// if nobody else can acquire it while this process lives.
    #[must_use]
    pub fn confirmed_at(&self) -> Option<Duration> {
        Some(self.confirmation.as_ref()?.last_confirmation())
    }

    /// Waits until another process has acquired the lock, which can happen only while this process cannot
    /// reach the database. Cancel safe.
    pub async fn wait_until_lost(&self) {
        if let Some(lost) = &self.lost
            && lost.clone().wait_for(|lost| *lost).await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }
}

/// The location of the database.
enum Backend {
    File(PathBuf),
    #[cfg(feature = "postgres")]
    Server(Arc<postgres::ServerHealth>),
}

#[derive(Default)]
struct WorkerThreads {
    writers: Vec<JoinHandle<()>>,
    readers: Vec<JoinHandle<()>>,
}

impl WorkerThreads {
    fn are_done(&self) -> bool {
        self.readers.iter().chain(&self.writers).all(JoinHandle::is_finished)
    }
}

impl Store {
    /// Opens the SQLite database at `path`, creates it if it is missing, and migrates it. Blocks.
    ///
    /// # Errors
    /// [`StoreError::TooNew`] if a later version of the program wrote it, otherwise an error of the engine.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_with(path, StoreOptions::default())
    }

    /// Returns the version of the schema of the database in a file, or of the one at a URL with `postgres:`. Changes nothing.
    ///
    /// # Errors
    /// As [`Store::open`] and [`Store::connect`].
    pub fn read_schema_version(path: &Path, url: Option<&str>) -> Result<SchemaVersion> {
        match url {
            None => migrations::read_schema_version(&sqlite::open_reader(path)?),
            Some(url) => Self::schema_of_server(url),
        }
    }

    #[cfg(not(feature = "postgres"))]
    fn schema_of_server(_: &str) -> Result<SchemaVersion> {
        Err(StoreError::Rule("this program was built without PostgreSQL"))
    }

    #[cfg(feature = "postgres")]
    fn schema_of_server(url: &str) -> Result<SchemaVersion> {
        let address = postgres::PgAddress::parse(url)?;
        // The caller may be inside a runtime.
        let looking =
            spawn_thread("store-schema".to_owned(), move || postgres::read_server_schema_version(&address))?;
        looking.join().unwrap_or(Err(StoreError::Panicked))
    }

    /// Opens a database like [`Store::open`], with the operator's options.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_with(path: &Path, options: StoreOptions) -> Result<Self> {
        let mut writer = sqlite::open_writer(path, options.size_max_bytes)?;
        migrations::apply_migrations(&mut writer)?;
        let slack = (options.slack_bytes > 0)
            .then(|| sqlite::PreallocatedSpace::new(path, options.slack_bytes))
            .flatten();
        let abort = Arc::new(Abort::new());
        abort.register_connection(writer.get_interrupt_handle());
        let store = Self::new_without_threads(Backend::File(path.to_owned()), Arc::clone(&abort));
        let mut threads = store.inner.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let (queue, metrics) = (Arc::clone(&store.inner.writes), Arc::clone(&store.inner.metrics));
        let writer_abort = Arc::clone(&abort);
        threads.writers.push(spawn_thread("store-writer".to_owned(), move || {
            sqlite::write_loop(&writer, &queue, &writer_abort, &metrics.group, slack);
        })?);
        let readers = thread::available_parallelism().map_or(READERS_MIN, usize::from);
        for number in 0..readers.clamp(READERS_MIN, READERS_MAX) {
            let reader = sqlite::open_reader(path)?;
            abort.register_connection(reader.get_interrupt_handle());
            let abort = Arc::clone(&abort);
            let queue = Arc::clone(&store.inner.reads);
            threads.readers.push(spawn_thread(format!("store-reader-{number}"), move || {
                sqlite::read_loop(&reader, &queue, &abort);
            })?);
        }
        drop(threads);
        Ok(store)
    }

    /// Opens the database at `url` and migrates it, one process at a time. Accepts
    /// `postgres://user@host/name` (also `postgresql://`; with libpq's parameters, including a socket's
    /// folder as `host`) and `sqlite:path`. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`] if the server cannot be reached, [`StoreError::TooNew`] if a later version
    /// of the program wrote the database, [`StoreError::Engine`] if it cannot be used.
    pub fn connect(url: &str) -> Result<Self> {
        Self::connect_with(url, StoreOptions::default())
    }

    /// Connects like [`Store::connect`], with the operator's options.
    ///
    /// # Errors
    /// As [`Store::connect`].
    pub fn connect_with(url: &str, options: StoreOptions) -> Result<Self> {
        if let Some(path) = url.strip_prefix("sqlite:") {
            return Self::open_with(Path::new(path), options);
        }
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return Self::connect_server(url, options);
        }
        Err(StoreError::Rule("a database URL must begin with postgres:// or sqlite:"))
    }

    #[cfg(not(feature = "postgres"))]
    fn connect_server(_: &str, _: StoreOptions) -> Result<Self> {
        Err(StoreError::Rule("this program was built without PostgreSQL"))
    }

    #[cfg(feature = "postgres")]
    fn connect_server(url: &str, options: StoreOptions) -> Result<Self> {
        let address = postgres::PgAddress::parse(url)?;
        // Runs on its own thread, because the caller may be inside a runtime.
        let migrating = {
            let address = address.clone();
            spawn_thread("store-migrations".to_owned(), move || postgres::migrate_server(&address))?
        };
        let name = migrating.join().unwrap_or(Err(StoreError::Panicked))?;
        let abort = Arc::new(Abort::new());
        let reach = Arc::new(postgres::ServerHealth::new(address, &options, Arc::clone(&abort)));
        let store = Self::new_without_threads(Backend::Server(Arc::clone(&reach)), abort);
        let mut threads = store.inner.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let writers = options.writers.unwrap_or(PG_WRITERS).clamp(1, PG_CONNECTIONS_MAX);
        for number in 0..writers {
            let worker = postgres::Worker::new(Arc::clone(&reach), format!("{name}/{number}"))?;
            let queue = Arc::clone(&store.inner.writes);
            let work = move || postgres::write_loop(worker, &queue);
            threads.writers.push(spawn_thread(format!("store-writer-{number}"), work)?);
        }
        let readers =
            options.writers.map_or(PG_READERS, |writers| (writers / 2).clamp(1, PG_CONNECTIONS_MAX));
        for number in 0..readers {
            let worker = postgres::Worker::new(Arc::clone(&reach), format!("{name}/-"))?;
            let queue = Arc::clone(&store.inner.reads);
            let work = move || postgres::read_loop(worker, &queue);
            threads.readers.push(spawn_thread(format!("store-reader-{number}"), work)?);
        }
        drop(threads);
        Ok(store)
    }

    /// Creates a store without threads. If a thread fails to start, dropping the store closes the queues and
    /// ends the threads that did.
    fn new_without_threads(place: Backend, abort: Arc<Abort>) -> Self {
        let inner = StoreInner {
            place,
            writes: Arc::new(Queue::new(WRITES_WAITING_MAX)),
            reads: Arc::new(Queue::new(READS_WAITING_MAX)),
            metrics: Arc::default(),
            abort,
            threads: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Runs `work` in a transaction and returns when it is durable. `work` may run more than once, so it must
    /// not read the clock or create identifiers. An `Err` or a panic undoes its changes.
    ///
    /// Dropping the returned future does not cancel work that has begun.
    ///
    /// # Errors
    /// The error of `work`, or [`StoreError`] of the engine.
    pub async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: Fn(&mut dyn Sql) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        time_call(&self.inner.metrics.writes, submit_call(&self.inner.writes, work)).await
    }

    /// Runs `work` on a snapshot of the database, concurrently with other reads and writes. It cannot change
    /// anything.
    ///
    /// # Errors
    /// The error of `work`, or [`StoreError`] of the engine.
    pub async fn read<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: Fn(&mut dyn Sql) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        time_call(&self.inner.metrics.reads, submit_call(&self.inner.reads, work)).await
    }

    #[must_use]
    pub fn metrics(&self) -> &StoreMetrics {
        &self.inner.metrics
    }

    /// Returns the number of waiting callers.
    #[must_use]
    pub fn queue_depths(&self) -> QueueDepths {
        QueueDepths { reads: self.inner.reads.waiting_count(), writes: self.inner.writes.waiting_count() }
    }

    /// Returns an exporter of the database.
    #[must_use]
    pub fn exporter(&self) -> DatabaseExporter {
        DatabaseExporter(match &self.inner.place {
            Backend::File(path) => copy::From::File(path.clone()),
            #[cfg(feature = "postgres")]
            Backend::Server(reach) => copy::From::Server(Box::new(reach.address.clone())),
        })
    }

    /// Returns `true` if the database answers within `max_wait`. Does not query a database that is known to
    /// be unreachable.
    pub async fn is_ready(&self, max_wait: Duration) -> bool {
        #[cfg(feature = "postgres")]
        if let Backend::Server(reach) = &self.inner.place
            && reach.is_unreachable()
        {
            return false;
        }
        let query = self.read(|tx| tx.query_one("SELECT 1", &[], |row| row.get_int(0)));
        matches!(tokio::time::timeout(max_wait, query).await, Ok(Ok(Some(1))))
    }

    /// Checks that the database accepts a write within `max_wait`. Changes nothing.
    ///
    /// # Errors
    /// [`StoreError`] of the engine, [`StoreError::Unreachable`] after `max_wait`.
    pub async fn check_writable(&self, max_wait: Duration) -> Result<()> {
        let written = self
            .write(|tx| tx.execute("UPDATE counters SET next = next WHERE name = 'machine'", &[]).map(drop));
        let late = || StoreError::Unreachable(format!("a write took longer than {max_wait:?}"));
        tokio::time::timeout(max_wait, written).await.unwrap_or_else(|_| Err(late()))
    }

    /// Acquires the lock that makes `process` the only one serving the database. Waits up to `max_wait` for
    /// another holder. SQLite grants it at once, because the data folder has a separate lock.
    ///
    /// # Errors
    /// [`StoreError::Taken`] if another process holds it, [`StoreError::Unreachable`].
    pub async fn lock_exclusively(&self, max_wait: Duration, process: NodeId) -> Result<ExclusiveLock> {
        match &self.inner.place {
            Backend::File(_) => {
                let _ = (max_wait, process);
                Ok(ExclusiveLock::of_file())
            }
            #[cfg(feature = "postgres")]
            Backend::Server(reach) => {
                let address = reach.address.clone();
                let confirmation = Arc::new(Confirmation::default());
                let confirmed = Arc::clone(&confirmation);
                let taking = move || postgres::acquire_lock(address, max_wait, process, confirmed);
                let taken = tokio::task::spawn_blocking(taking).await;
                let (lost, hold) = taken.unwrap_or(Err(StoreError::Panicked))?;
                Ok(ExclusiveLock { lost: Some(lost), confirmation: Some(confirmation), _hold: Some(hold) })
            }
        }
    }

    /// Aborts: cancels running statements, on a server as well, and fails waiting and later calls with
    /// [`StoreError::Closed`]. Commits stay. [`Store::close`] returns soon after.
    pub fn abort(&self) {
        self.inner.abort.abort();
    }

    /// Finishes running work, checkpoints the write-ahead log and ends the threads. Later calls, also on
    /// other clones, fail with [`StoreError::Closed`].
    pub async fn close(&self) {
        self.inner.reads.close();
        self.inner.writes.close();
        let threads = std::mem::take(&mut *self.inner.threads.lock().unwrap_or_else(PoisonError::into_inner));
        let abort = Arc::clone(&self.inner.abort);
        let joined = tokio::task::spawn_blocking(move || {
            // A statement may begin after the first interrupt, so the interrupt is repeated.
            while abort.is_aborted() && !threads.are_done() {
                abort.abort();
                thread::sleep(ABORT_INTERVAL);
            }
            threads.readers.into_iter().chain(threads.writers).all(|thread| thread.join().is_ok())
        });
        if !joined.await.unwrap_or(false) {
            tracing::error!("store thread panicked");
        }
    }
}

impl Drop for StoreInner {
    fn drop(&mut self) {
        self.reads.close();
        self.writes.close();
    }
}

async fn time_call<T>(figure: &Histogram, work: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let outcome = work.await;
    figure.observe_duration(began.elapsed());
    outcome
}

async fn submit_call<T, E, F>(queue: &Queue<Box<dyn StoreJob>>, work: F) -> Result<T, E>
where
    F: Fn(&mut dyn Sql) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    let (call, outcome) = JobCall::new(work);
    if queue.push(Box::new(call)).await.is_err() {
        return Err(StoreError::Closed.into());
    }
    outcome.await.unwrap_or_else(|_| Err(StoreError::Closed.into()))
}

fn spawn_thread<T: Send + 'static>(
    name: String,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    thread::Builder::new().name(name).spawn(work).map_err(|error| StoreError::Engine(error.to_string()))
}
