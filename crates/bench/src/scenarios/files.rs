//! Measures downloads and uploads beside nginx on the same bytes.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use test_support::port::ReservedPort;
use tokio::task::JoinSet;

use super::block_on;
use crate::BenchResult;
use crate::http::{BenchConnection, build_request};
use crate::measurement::{Goal, Measurement, MeasurementUnit};
use crate::process::{self, CpuPlacement, CpuTime, ProcessMemory};
use crate::service::{BenchService, wait_until_responding};

const CONNECTIONS: usize = 64;
const SMALL_BYTES: usize = 64 << 10;
const LARGE_BYTES: usize = 512 << 20;
/// The size of a sent chunk.
const PIECE_BYTES: usize = 256 << 10;
const ROUND: Duration = Duration::from_secs(1);
const ROUNDS: usize = 3;
const DOWNLOAD_RATIO: f64 = 0.7;
const UPLOAD_RATIO: f64 = 1.0;
const BOUNDARY: &str = "bench-boundary";

/// Downloads per second, and the server's processor time of each.
#[derive(Default)]
struct DownloadRate {
    per_second: Vec<f64>,
    micros: Vec<f64>,
}

/// Measures downloads of small files by many clients, and an upload of a large one.
pub(crate) fn measure_files() -> BenchResult<Vec<Measurement>> {
    process::run_apart(|| {
        let mut service = BenchService::start_on(CpuPlacement::Alone, None)?;
        let key = service.create_account()?.key;
        let nginx = Nginx::start_server()?;
        let small = vec![7; SMALL_BYTES];
        let (mut ours, mut theirs) = (DownloadRate::default(), DownloadRate::default());
        let (mut ours_large, mut theirs_large) = (DownloadRate::default(), DownloadRate::default());
        let (mut ours_up, mut theirs_up, mut memory) = (Vec::new(), Vec::new(), Vec::new());
        block_on(async {
            upload_to_service(service.address, &key, "small.bin", small.len()).await?;
            upload_to_nginx(nginx.address, "/small.bin", small.len()).await?;
            let get = build_request("GET", "/api/v1/files/uploads/small.bin", Some(&key), None);
            let bare = build_request("GET", "/small.bin", None, None);
            let get_large = build_request("GET", "/api/v1/files/uploads/large.bin", Some(&key), None);
            let bare_large = build_request("GET", "/large.bin", None, None);
            for _ in 0..ROUNDS {
                download_repeatedly(service.address, service.pid()?, &get, &mut ours).await?;
                download_repeatedly(nginx.address, nginx.child.id(), &bare, &mut theirs).await?;
                let before = ProcessMemory::of_process(service.pid()?)?;
                ours_up.push(upload_to_service(service.address, &key, "large.bin", LARGE_BYTES).await?);
                memory.push((ProcessMemory::of_process(service.pid()?)?.rss - before.rss) / 1024.0);
                theirs_up.push(upload_to_nginx(nginx.address, "/large.bin", LARGE_BYTES).await?);
                download_large(service.address, service.pid()?, &get_large, &mut ours_large).await?;
                download_large(nginx.address, nginx.child.id(), &bare_large, &mut theirs_large).await?;
            }
            Ok(())
        })?;
        Ok(vec![
            Measurement::new(
                "downloads of 64 KiB, 64 connections",
                MeasurementUnit::PerSecond,
                ours.per_second,
            )
            .with_baseline("nginx", theirs.per_second)
            .with_goal(Goal::RatioAtLeast(DOWNLOAD_RATIO)),
            Measurement::new("processor per download of 64 KiB", MeasurementUnit::Micros, ours.micros)
                .with_baseline("nginx", theirs.micros),
            Measurement::new(
                "download of 512 MiB",
                MeasurementUnit::MebibytesPerSecond,
                ours_large.per_second,
            )
            .with_baseline("nginx", theirs_large.per_second),
            Measurement::new(
                "processor per MiB of such a download",
                MeasurementUnit::Micros,
                ours_large.micros,
            )
            .with_baseline("nginx", theirs_large.micros),
            Measurement::new("upload of 512 MiB", MeasurementUnit::MebibytesPerSecond, ours_up)
                .with_baseline("nginx PUT", theirs_up)
                .with_goal(Goal::RatioAtLeast(UPLOAD_RATIO)),
            Measurement::new("memory that an upload takes, Rss", MeasurementUnit::Mebibytes, memory),
        ])
    })
}

async fn download_repeatedly(
    address: SocketAddr,
    pid: u32,
    request: &[u8],
    rate: &mut DownloadRate,
) -> BenchResult<()> {
    let mut connections = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        connections.push(BenchConnection::open(address).await?);
    }
    let (before, began) = (CpuTime::of_process(pid)?, Instant::now());
    let mut callers = JoinSet::new();
    for mut connection in connections {
        let request = request.to_vec();
        callers.spawn(async move {
            let mut done = 0_u32;
            while began.elapsed() < ROUND {
                let (head, body) = connection.exchange_request(&request).await?;
                if head.status != 200 || body.len() != SMALL_BYTES {
                    return Err(format!("status {} with {} bytes", head.status, body.len()).into());
                }
                done += 1;
            }
            BenchResult::Ok(done)
        });
    }
    let mut done = 0.0;
    while let Some(caller) = callers.join_next().await {
        done += f64::from(caller??);
    }
    rate.per_second.push(done / began.elapsed().as_secs_f64());
    rate.micros.push(CpuTime::of_process(pid)?.nanos_since(&before) / 1e3 / done);
    Ok(())
}

/// Downloads the large file once: returns the mebibytes per second, and the server's processor time of each.
async fn download_large(
    address: SocketAddr,
    pid: u32,
    request: &[u8],
    rate: &mut DownloadRate,
) -> BenchResult<()> {
    let mut connection = BenchConnection::open(address).await?;
    let (before, began) = (CpuTime::of_process(pid)?, Instant::now());
    let (head, length) = connection.discard_response(request).await?;
    if head.status != 200 || length != LARGE_BYTES {
        return Err(format!("status {} with {length} bytes", head.status).into());
    }
    let mebibytes = length as f64 / f64::from(1 << 20);
    rate.per_second.push(mebibytes / began.elapsed().as_secs_f64());
    rate.micros.push(CpuTime::of_process(pid)?.nanos_since(&before) / 1e3 / mebibytes);
    Ok(())
}

/// Uploads this number of bytes to the service. Returns mebibytes per second.
async fn upload_to_service(address: SocketAddr, key: &str, name: &str, bytes: usize) -> BenchResult<f64> {
    let head =
        format!("--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n");
    let tail = format!("\r\n--{BOUNDARY}--\r\n");
    let length = head.len() + bytes + tail.len();
    let begin = format!(
        "POST /api/v1/files HTTP/1.1\r\nhost: bench\r\nx-api-key: {key}\r\n\
         content-type: multipart/form-data; boundary={BOUNDARY}\r\ncontent-length: {length}\r\n\r\n{head}"
    );
    send_upload(address, begin.as_bytes(), bytes, tail.as_bytes()).await
}

/// Uploads this number of bytes to nginx. Returns mebibytes per second.
async fn upload_to_nginx(address: SocketAddr, path: &str, bytes: usize) -> BenchResult<f64> {
    let begin = format!("PUT {path} HTTP/1.1\r\nhost: bench\r\ncontent-length: {bytes}\r\n\r\n");
    send_upload(address, begin.as_bytes(), bytes, b"").await
}

async fn send_upload(address: SocketAddr, begin: &[u8], bytes: usize, end: &[u8]) -> BenchResult<f64> {
    let mut connection = BenchConnection::open(address).await?;
    let piece = vec![7; PIECE_BYTES];
    let began = Instant::now();
    connection.send_bytes(begin).await?;
    let mut left = bytes;
    while left > 0 {
        let now = left.min(PIECE_BYTES);
        connection.send_bytes(&piece[..now]).await?;
        left -= now;
    }
    let (head, body) = connection.exchange_request(end).await?;
    if !matches!(head.status, 201 | 204) {
        return Err(format!("an upload: {} {}", head.status, String::from_utf8_lossy(&body)).into());
    }
    Ok(bytes as f64 / f64::from(1 << 20) / began.elapsed().as_secs_f64())
}

/// An nginx with one process on its own folder, which also accepts `PUT`.
struct Nginx {
    address: SocketAddr,
    child: Child,
    _home: tempfile::TempDir,
    _port: ReservedPort,
}

impl Nginx {
    fn start_server() -> BenchResult<Self> {
        let home = tempfile::Builder::new().prefix("bench-nginx-").tempdir()?;
        let port = ReservedPort::reserve();
        let address = port.address();
        fs::create_dir(home.path().join("files"))?;
        fs::write(home.path().join("files/ready"), "yes")?;
        let config = home.path().join("nginx.conf");
        fs::write(&config, nginx_configuration(home.path(), address))?;
        let mut command: Command = CpuPlacement::Alone.build_command("nginx");
        command.arg("-p").arg(home.path()).arg("-c").arg(&config);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let began = Instant::now();
        let mut child = command.spawn().map_err(|error| {
            format!("nginx, beside which files are measured (`apt-get install nginx-light`): {error}")
        })?;
        wait_until_responding(address, "/ready", began, &mut child)?;
        Ok(Self { address, child, _home: home, _port: port })
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        process::terminate_process(self.child.id());
        // It may have exited.
        let _ = self.child.wait();
    }
}

fn nginx_configuration(home: &Path, address: SocketAddr) -> String {
    let home = home.display();
    format!(
        "daemon off;\nmaster_process off;\nuser root;\npid {home}/pid;\nerror_log {home}/error.log;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n  access_log off;\n  sendfile on;\n  tcp_nodelay on;\n  client_max_body_size 0;\n  \
         client_body_temp_path {home}/body;\n  proxy_temp_path {home}/t1;\n  fastcgi_temp_path {home}/t2;\n  \
         uwsgi_temp_path {home}/t3;\n  scgi_temp_path {home}/t4;\n  keepalive_requests 1000000;\n  \
         server {{\n    listen {address};\n    root {home}/files;\n    dav_methods PUT;\n  }}\n}}\n"
    )
}
