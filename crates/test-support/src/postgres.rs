//! PostgreSQL servers for tests: one that all tests share, and separate ones for tests that kill or fill them. Tests
//! fail when the server's programs are missing.
//!
//! A server outlives the process that started it and serves later tests. Its users hold a lock. A script waits for that
//! lock, and stops the server and removes its folder when it has been unused for a while.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::port::ReservedPort;

/// Limits the checks whether a running server accepts connections.
const READY_ASKED_MAX: u32 = 500;

const USER: &str = "store";
/// The idle time after which the shared server stops.
const LINGER_SECONDS: &str = "5";
/// Limits the attempts to restart a killed server.
const STARTS_MAX: u32 = 500;
/// Stops the server in folder $1 and removes it when $1.users has been unlocked for $2 seconds. Removes lock files
/// under their locks; see [`lock_folder`].
const WATCH: &str = r#"
while :; do
    flock -x "$1.users" true
    sleep "$2"
    flock -n -x "$1.lock" flock -n -x "$1.users" sh -c '
        kill -QUIT "$(head -n 1 "$1/data/postmaster.pid")" 2>/dev/null
        rm -rf "$1"
        rm -f "$1.lock" "$1.users"
    ' sh "$1" && break
done
"#;

#[derive(Debug)]
pub struct PostgresServer {
    folder: PathBuf,
    /// The size of a small server's disk, in MiB.
    room: Option<u32>,
    /// The local port of a server with TLS.
    port: Option<ReservedPort>,
    /// Held while the server is in use.
    _used: File,
}

/// Returns the shared server.
///
/// # Panics
/// Panics when the server's programs are not installed, or it does not start.
#[must_use]
pub fn shared_server() -> &'static PostgresServer {
    static SHARED: OnceLock<PostgresServer> = OnceLock::new();
    SHARED.get_or_init(|| {
        let name = format!("causerie-store-suite-{}", process_uid());
        PostgresServer::start_at(env::temp_dir().join(name), LINGER_SECONDS, None)
    })
}

impl PostgresServer {
    /// Starts a separate server.
    ///
    /// # Panics
    /// Panics when it does not start.
    #[must_use]
    pub fn start_separate() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("causerie-store-own-{}-{number}", std::process::id());
        Self::start_at(env::temp_dir().join(name), "0", None)
    }

    /// Starts a separate server with limited space for tables and indexes. Its log is on the ordinary disk.
    ///
    /// # Panics
    /// Panics when it does not start.
    #[must_use]
    pub fn start_small(mebibytes: u32) -> Self {
        let name = format!("causerie-store-small-{}", std::process::id());
        let server = Self::start_at(env::temp_dir().join(name), "0", Some(mebibytes));
        server.run_sql(&format!(
            "CREATE TABLESPACE small LOCATION '{}'",
            server.folder.join("small").display()
        ));
        server.run_sql("ALTER DATABASE postgres SET default_tablespace = small");
        server
    }

    /// Starts a separate server that also listens on `localhost` and requires TLS there. [`PostgresServer::authority_certificate`] signs
    /// its certificate for that name.
    ///
    /// # Panics
    /// Panics when it does not start.
    #[must_use]
    pub fn start_with_tls() -> Self {
        let name = format!("causerie-store-secret-{}", std::process::id());
        Self::start_at_with_port(env::temp_dir().join(name), "0", None, Some(ReservedPort::reserve()))
    }

    /// Returns the authority's certificate of a server with TLS.
    #[must_use]
    pub fn authority_certificate(&self) -> PathBuf {
        self.folder.join("authority.pem")
    }

    /// Returns the port of a server with TLS.
    #[must_use]
    pub fn tls_port(&self) -> Option<u16> {
        self.port.as_ref().map(ReservedPort::number)
    }

    /// Kills the server and restarts it.
    ///
    /// # Panics
    /// Panics when it does not run, or does not restart.
    pub fn kill_and_start(&self) {
        self.kill_server();
        self.start_again();
    }

    /// Kills the server.
    ///
    /// # Panics
    /// Panics when it does not run.
    pub fn kill_server(&self) {
        let file = fs::read_to_string(self.folder.join("data/postmaster.pid")).expect("it runs");
        kill_process(file.lines().next().expect("its id is in the first line"));
    }

    /// Restarts a killed server.
    ///
    /// # Panics
    /// Panics when it does not start.
    pub fn start_again(&self) {
        // Its remaining processes exit on their own, and until then it cannot start.
        for _ in 0..STARTS_MAX {
            if self.start_command().status().expect("it can be run").success() {
                return;
            }
        }
        unreachable!("the server does not start again");
    }

    /// Kills one process that serves a connection, if any. The server then ends all of them and runs crash recovery.
    pub fn kill_one_connection(&self) {
        // It may still recover from an earlier one.
        assert!((0..STARTS_MAX).any(|_| self.is_ready()), "the server does not recover");
        let writing = "SELECT pid FROM pg_stat_activity WHERE application_name = 'causerie'
            AND query NOT LIKE 'SELECT%' ORDER BY state_change DESC LIMIT 1";
        kill_process(self.run_sql(writing).trim());
    }

    fn start_at(folder: PathBuf, linger: &str, room: Option<u32>) -> Self {
        Self::start_at_with_port(folder, linger, room, None)
    }

    fn start_at_with_port(
        folder: PathBuf,
        linger: &str,
        room: Option<u32>,
        port: Option<ReservedPort>,
    ) -> Self {
        let _lock = lock_folder(&folder);
        let used = open_lock_file(&folder, "users");
        used.lock_shared().expect("a place among its users");
        let server = Self { folder, room, port, _used: used };
        if !server.is_ready() {
            server.create_cluster(linger);
        }
        server
    }

    fn create_cluster(&self, linger: &str) {
        drop(fs::remove_dir_all(&self.folder));
        fs::create_dir(&self.folder).expect("a folder for the server");
        fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o755)).expect("it is ours");
        if is_root() {
            run_to_output(Command::new("chown").arg("postgres").arg(&self.folder));
        }
        let data = self.folder.join("data");
        run_to_output(server_command("initdb").arg("-D").arg(&data).args([
            "--no-sync",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "-U",
            USER,
        ]));
        if self.port.is_some() {
            self.create_certificates();
        }
        self.start_process();
        let watch = Command::new("sh")
            .args(["-c", WATCH, "sh"])
            .arg(&self.folder)
            .arg(linger)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        // The script outlives this process.
        drop(watch.expect("the script that stops the server starts"));
    }

    /// Creates an authority and the server's certificate, and requires TLS for network connections.
    fn create_certificates(&self) {
        let file = |name: &str| self.folder.join(name);
        let openssl = |arguments: &[&str]| {
            let mut command = Command::new("openssl");
            run_to_output(command.args(arguments).current_dir(&self.folder).stdin(Stdio::null()));
        };
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
        let mut authority = vec!["req", "-x509", "-subj", "/CN=authority"];
        authority.extend(key);
        openssl(&[&authority[..], &["-keyout", "authority.key", "-out", "authority.pem"]].concat());
        let mut own = vec!["req", "-x509", "-subj", "/CN=server", "-addext", "subjectAltName=DNS:localhost"];
        own.extend(key);
        own.extend(["-addext", "basicConstraints=critical,CA:FALSE", "-CA", "authority.pem"]);
        own.extend(["-CAkey", "authority.key", "-keyout", "server.key", "-out", "server.pem"]);
        openssl(&own);
        fs::set_permissions(file("server.key"), fs::Permissions::from_mode(0o600)).expect("it is ours");
        if is_root() {
            run_to_output(
                Command::new("chown").arg("postgres").args([file("server.key"), file("server.pem")]),
            );
        }
        let rules = "local all all trust\nhostssl all all 127.0.0.1/32 trust\n";
        fs::write(file("data/pg_hba.conf"), rules).expect("its rules");
    }

    /// Starts the server and waits until it accepts connections.
    fn start_process(&self) {
        run_to_output(&mut self.start_command());
    }

    fn start_command(&self) -> Command {
        let folder = self.folder.display();
        let network = self.tls_port().map_or_else(
            || "-c listen_addresses=".to_owned(),
            |port| {
                format!(
                    "-c listen_addresses=127.0.0.1 -c port={port} -c ssl=on -c ssl_cert_file={folder}/server.pem \
                     -c ssl_key_file={folder}/server.key"
                )
            },
        );
        let options = format!(
            "{network} -c unix_socket_directories={folder} -c max_connections=300 \
             -c shared_buffers=64MB -c fsync=on"
        );
        let mut command = match self.room {
            None => server_command("pg_ctl"),
            Some(mebibytes) => {
                with_small_disk(&self.folder.join("small"), mebibytes, &server_command("pg_ctl"))
            }
        };
        command.args(["start", "-w", "-t", "60", "-o", &options, "-D"]);
        command.arg(self.folder.join("data")).arg("-l").arg(self.folder.join("log"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Returns true when the server accepts connections. Waits for a running server, because a busy host may delay it.
    fn is_ready(&self) -> bool {
        for _ in 0..READY_ASKED_MAX {
            let mut probe = server_command("pg_isready");
            if let Some(port) = self.tls_port() {
                probe.arg("-p").arg(port.to_string());
            }
            probe.args(["-q", "-t", "10"]).arg("-h").arg(&self.folder);
            if probe.status().is_ok_and(|status| status.success()) {
                return true;
            }
            if !self.is_running() {
                return false;
            }
        }
        false
    }

    fn is_running(&self) -> bool {
        let file = fs::read_to_string(self.folder.join("data/postmaster.pid")).unwrap_or_default();
        let id = file.lines().next().unwrap_or_default();
        !id.is_empty()
            && fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name.trim() == "postgres")
    }

    /// Returns the URL of an unused database: a schema, which is faster to create.
    ///
    /// # Panics
    /// Panics when it cannot be created.
    #[must_use]
    pub fn new_database(&self) -> String {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("t{}_{}_{number}", std::process::id(), now_nanos());
        self.run_sql(&format!("CREATE SCHEMA {name}"));
        format!(
            "postgres://{USER}@/postgres?host={}&options=-c%20search_path%3D{name}",
            self.folder.display()
        )
    }

    /// Returns the folder of the server's socket.
    #[must_use]
    pub fn socket_folder(&self) -> &Path {
        &self.folder
    }

    /// Runs statements as administrator and returns their output.
    ///
    /// # Panics
    /// Panics when they fail.
    pub fn run_sql(&self, sql: &str) -> String {
        let mut psql = server_command("psql");
        if let Some(port) = self.tls_port() {
            psql.arg("-p").arg(port.to_string());
        }
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", USER, "-d", "postgres", "-c", sql]);
        run_to_output(psql.arg("-h").arg(&self.folder))
    }

    /// Dumps a schema with `pg_dump`, rows as statements.
    ///
    /// # Panics
    /// Panics when the dump fails.
    #[must_use]
    pub fn dump_schema(&self, schema: &str) -> String {
        let mut dump = server_command("pg_dump");
        dump.args(["--inserts", "--no-owner", "-U", USER, "-d", "postgres", "-n", schema]);
        run_to_output(dump.arg("-h").arg(&self.folder))
    }

    /// Runs a script, such as a dump, as administrator.
    ///
    /// # Panics
    /// Panics when it fails.
    pub fn run_script(&self, script: &str) {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(script.as_bytes()).and_then(|()| file.rewind()).expect("it is ours");
        let mut psql = server_command("psql");
        psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", USER, "-d", "postgres", "-f", "-"]);
        run_to_output(psql.arg("-h").arg(&self.folder).stdin(file));
    }
}

/// Locks the server in the folder. If the lock file is removed meanwhile, locks the new one.
fn lock_folder(folder: &Path) -> File {
    loop {
        let file = open_lock_file(folder, "lock");
        file.lock().expect("the lock of the server");
        let present = fs::metadata(folder.with_extension("lock"));
        let locked = file.metadata().expect("an open file has metadata");
        if present.is_ok_and(|present| present.ino() == locked.ino()) {
            return file;
        }
    }
}

fn open_lock_file(folder: &Path, what: &str) -> File {
    let path = folder.with_extension(what);
    OpenOptions::new().create(true).truncate(false).write(true).open(path).expect("a file to lock")
}

/// Returns a command of the server, as a user that may run it: the server refuses root.
fn server_command(name: &str) -> Command {
    let path = programs_folder().join(name);
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(path);
        command
    } else {
        Command::new(path)
    };
    command.current_dir("/").stdin(Stdio::null());
    command
}

/// Wraps a command so that `folder` is a separate disk, visible only to it and its children. An ordinary user needs a
/// user namespace for that.
fn with_small_disk(folder: &Path, mebibytes: u32, command: &Command) -> Command {
    fs::create_dir_all(folder).expect("a folder to mount on");
    let mut apart = Command::new("unshare");
    if !is_root() {
        apart.args(["--user", "--map-current-user", "--keep-caps"]);
    }
    let mount = r#"
        mount -t tmpfs -o "size=$1m,mode=0700" none "$2" || exit
        if [ "$(id -u)" = 0 ]; then chown postgres "$2" || exit; fi
        shift 2
        exec "$@""#;
    apart.args(["--mount", "sh", "-c", mount, "sh", &mebibytes.to_string()]).arg(folder);
    apart.arg(command.get_program()).args(command.get_args()).current_dir("/").stdin(Stdio::null());
    apart
}

fn kill_process(process: &str) {
    // A process that has already ended is fine.
    Command::new("kill").args(["-9", process]).stderr(Stdio::null()).status().expect("it can be run");
}

/// Returns the folder of the newest installed server.
fn programs_folder() -> PathBuf {
    let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions
        .map(|entry| entry.path())
        .filter(|path| path.join("bin/initdb").exists())
        .max_by_key(version);
    newest.expect("PostgreSQL is installed: `make setup` sees to it").join("bin")
}

fn run_to_output(command: &mut Command) -> String {
    let done = command.stderr(Stdio::piped()).stdout(Stdio::piped()).output().expect("it can be run");
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("UTF-8")
}

fn is_root() -> bool {
    process_uid() == 0
}

/// Returns the user of this process.
fn process_uid() -> u32 {
    fs::metadata("/proc/self").expect("a process").uid()
}

fn now_nanos() -> u128 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_nanos()
}
