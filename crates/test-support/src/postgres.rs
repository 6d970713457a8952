//! PostgreSQL servers for the tests: one that all tests of a run share, and some of their own for those that
//! kill or fill them. Without the server's programs the tests fail.
//!
//! A server outlives the process that started it, for the next tests. Whoever uses it holds a lock; a script
//! that waits for that lock stops the server and removes its folder when nobody has wanted it for a while.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often a server that runs is asked whether it takes connections.
const READY_ASKED_MAX: u32 = 500;

/// The user that owns the tables.
const USER: &str = "store";
/// How long the shared server waits for more tests.
const LINGER_SECONDS: &str = "5";
/// How often a killed server is tried to be started.
const STARTS_MAX: u32 = 500;
/// Stops the server in folder $1 for good when nobody has held $1.users for $2 seconds. The files of the locks are removed
/// under the locks; see [`lock`].
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

/// A running server.
#[derive(Debug)]
pub struct Server {
    folder: PathBuf,
    /// The mebibytes of a small one.
    room: Option<u32>,
    /// Where one with TLS listens on this host.
    port: Option<u16>,
    /// Held as long as the server is wanted.
    _used: File,
}

/// The server for everybody.
///
/// # Panics
/// When its programs are not installed, or it does not start.
#[must_use]
pub fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| {
        let name = format!("causerie-store-suite-{}", uid());
        Server::at(env::temp_dir().join(name), LINGER_SECONDS, None)
    })
}

impl Server {
    /// One for this test alone.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn own() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("causerie-store-own-{}-{number}", std::process::id());
        Self::at(env::temp_dir().join(name), "0", None)
    }

    /// One for this test alone whose tables and indexes have so much room. Its log has the room of the disk.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn small(mebibytes: u32) -> Self {
        let name = format!("causerie-store-small-{}", std::process::id());
        let server = Self::at(env::temp_dir().join(name), "0", Some(mebibytes));
        server.sql(&format!("CREATE TABLESPACE small LOCATION '{}'", server.folder.join("small").display()));
        server.sql("ALTER DATABASE postgres SET default_tablespace = small");
        server
    }

    /// One for this test alone that also listens on `localhost`, where it insists on TLS. It is vouched for under
    /// that name by the certificate [`Server::authority`].
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn secret() -> Self {
        let name = format!("causerie-store-secret-{}", std::process::id());
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        Self::with(env::temp_dir().join(name), "0", None, Some(port))
    }

    /// The certificate that vouches for a secret one.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.folder.join("authority.pem")
    }

    /// The port of a secret one.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Kills the whole server and starts it again.
    ///
    /// # Panics
    /// When it does not run, or does not start again.
    pub fn kill_and_start(&self) {
        self.kill();
        self.start_again();
    }

    /// Kills the whole server.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&self) {
        let file = fs::read_to_string(self.folder.join("data/postmaster.pid")).expect("it runs");
        kill(file.lines().next().expect("its id is in the first line"));
    }

    /// Starts a server that was killed.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_again(&self) {
        // What it left behind ends by itself, and until then it can't start.
        for _ in 0..STARTS_MAX {
            if self.start_command().status().expect("it can be run").success() {
                return;
            }
        }
        unreachable!("the server does not start again");
    }

    /// Kills one of the processes that serve a connection, if there is any. The server then ends all of them, and
    /// recovers as from a crash.
    pub fn kill_one_connection(&self) {
        let writing = "SELECT pid FROM pg_stat_activity WHERE application_name = 'causerie'
            AND query NOT LIKE 'SELECT%' ORDER BY state_change DESC LIMIT 1";
        kill(self.sql(writing).trim());
    }

    fn at(folder: PathBuf, linger: &str, room: Option<u32>) -> Self {
        Self::with(folder, linger, room, None)
    }

    fn with(folder: PathBuf, linger: &str, room: Option<u32>, port: Option<u16>) -> Self {
        let _lock = lock(&folder);
        let used = open(&folder, "users");
        used.lock_shared().expect("a place among its users");
        let server = Self { folder, room, port, _used: used };
        if !server.ready() {
            server.make(linger);
        }
        server
    }

    fn make(&self, linger: &str) {
        drop(fs::remove_dir_all(&self.folder));
        fs::create_dir(&self.folder).expect("a folder for the server");
        fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o755)).expect("it is ours");
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(&self.folder));
        }
        let data = self.folder.join("data");
        run(program("initdb").arg("-D").arg(&data).args([
            "--no-sync",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "-U",
            USER,
        ]));
        if self.port.is_some() {
            self.certify();
        }
        self.start();
        let watch = Command::new("sh")
            .args(["-c", WATCH, "sh"])
            .arg(&self.folder)
            .arg(linger)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        // It outlives this process.
        drop(watch.expect("the script that stops the server starts"));
    }

    /// Makes an authority and the server's certificate, and lets nobody in over the network without TLS.
    fn certify(&self) {
        let file = |name: &str| self.folder.join(name);
        let openssl = |arguments: &[&str]| {
            let mut command = Command::new("openssl");
            run(command.args(arguments).current_dir(&self.folder).stdin(Stdio::null()));
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
            run(Command::new("chown").arg("postgres").args([file("server.key"), file("server.pem")]));
        }
        let rules = "local all all trust\nhostssl all all 127.0.0.1/32 trust\n";
        fs::write(file("data/pg_hba.conf"), rules).expect("its rules");
    }

    /// Starts it, and waits until it takes connections.
    fn start(&self) {
        run(&mut self.start_command());
    }

    fn start_command(&self) -> Command {
        let folder = self.folder.display();
        let network = self.port.map_or_else(
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
            None => program("pg_ctl"),
            Some(mebibytes) => with_small_disk(&self.folder.join("small"), mebibytes, &program("pg_ctl")),
        };
        command.args(["start", "-w", "-t", "60", "-o", &options, "-D"]);
        command.arg(self.folder.join("data")).arg("-l").arg(self.folder.join("log"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Whether it takes connections. One that runs is waited for: a busy machine may keep it from answering.
    fn ready(&self) -> bool {
        for _ in 0..READY_ASKED_MAX {
            let mut asked = program("pg_isready");
            if let Some(port) = self.port {
                asked.arg("-p").arg(port.to_string());
            }
            asked.args(["-q", "-t", "10"]).arg("-h").arg(&self.folder);
            if asked.status().is_ok_and(|status| status.success()) {
                return true;
            }
            if !self.runs() {
                return false;
            }
        }
        false
    }

    fn runs(&self) -> bool {
        let file = fs::read_to_string(self.folder.join("data/postmaster.pid")).unwrap_or_default();
        let id = file.lines().next().unwrap_or_default();
        !id.is_empty()
            && fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name.trim() == "postgres")
    }

    /// The URL of a database that nobody else uses: a schema, which takes less time to make.
    ///
    /// # Panics
    /// When it can't be made.
    #[must_use]
    pub fn new_database(&self) -> String {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("t{}_{}_{number}", std::process::id(), nanoseconds());
        self.sql(&format!("CREATE SCHEMA {name}"));
        format!(
            "postgres://{USER}@/postgres?host={}&options=-c%20search_path%3D{name}",
            self.folder.display()
        )
    }

    /// Where its socket is.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs statements as the administrator and returns what they print.
    ///
    /// # Panics
    /// When they fail.
    pub fn sql(&self, sql: &str) -> String {
        let mut psql = program("psql");
        if let Some(port) = self.port {
            psql.arg("-p").arg(port.to_string());
        }
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", USER, "-d", "postgres", "-c", sql]);
        run(psql.arg("-h").arg(&self.folder))
    }

    /// A schema as `pg_dump` writes it, rows as statements.
    ///
    /// # Panics
    /// When it can't be dumped.
    #[must_use]
    pub fn dump(&self, schema: &str) -> String {
        let mut dump = program("pg_dump");
        dump.args(["--inserts", "--no-owner", "-U", USER, "-d", "postgres", "-n", schema]);
        run(dump.arg("-h").arg(&self.folder))
    }

    /// Runs a script, such as a dump, as the administrator.
    ///
    /// # Panics
    /// When it fails.
    pub fn script(&self, script: &str) {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(script.as_bytes()).and_then(|()| file.rewind()).expect("it is ours");
        let mut psql = program("psql");
        psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", USER, "-d", "postgres", "-f", "-"]);
        run(psql.arg("-h").arg(&self.folder).stdin(file));
    }
}

/// Locks the server in the folder. The file may be removed while it is waited for: then another one counts.
fn lock(folder: &Path) -> File {
    loop {
        let file = open(folder, "lock");
        file.lock().expect("the lock of the server");
        let present = fs::metadata(folder.with_extension("lock"));
        let locked = file.metadata().expect("an open file has metadata");
        if present.is_ok_and(|present| present.ino() == locked.ino()) {
            return file;
        }
    }
}

fn open(folder: &Path, what: &str) -> File {
    let path = folder.with_extension(what);
    OpenOptions::new().create(true).truncate(false).write(true).open(path).expect("a file to lock")
}

/// A program of the server, as the user that may run it: the server refuses root.
fn program(name: &str) -> Command {
    let path = programs().join(name);
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

/// The command where `folder` is a disk of its own that only it and its children see. An ordinary user may do
/// that in a user namespace of its own.
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

fn kill(process: &str) {
    // One that is gone already is as well.
    Command::new("kill").args(["-9", process]).stderr(Stdio::null()).status().expect("it can be run");
}

/// Where the newest server's programs are.
fn programs() -> PathBuf {
    let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions
        .map(|entry| entry.path())
        .filter(|path| path.join("bin/initdb").exists())
        .max_by_key(version);
    newest.expect("PostgreSQL is installed: `make setup` sees to it").join("bin")
}

fn run(command: &mut Command) -> String {
    let done = command.stderr(Stdio::piped()).stdout(Stdio::piped()).output().expect("it can be run");
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("UTF-8")
}

fn is_root() -> bool {
    uid() == 0
}

/// Whose this process is.
fn uid() -> u32 {
    fs::metadata("/proc/self").expect("a process").uid()
}

fn nanoseconds() -> u128 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_nanos()
}
