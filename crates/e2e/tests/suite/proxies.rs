//! The samples for proxies before the service. A proxy that is not installed is skipped.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use e2e::{Api, Expect, HttpRequest, TestService, poll, start_with_api};
use test_support::port::ReservedPort;

/// More than nginx lets through by default.
const UPLOAD_BYTES: usize = 3 << 20;

/// A running proxy, which ends with the test.
struct SampleProxy(Child);

impl Drop for SampleProxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn read_sample(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name);
    std::fs::read_to_string(path).expect("the sample is there")
}

/// Returns true if the program is installed.
fn is_installed(program: &str) -> bool {
    let version = Command::new(program).arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok()
}

/// Checks the promises of the samples through the proxy at `address`.
fn keeps_its_promises(service: &TestService, api: &Api, address: &str) {
    poll::wait_until("the proxy listens", || {
        HttpRequest::new("GET", "/healthz").try_send(address).ok().filter(|answer| answer.status == 200)
    });
    for inside in ["/metrics", "/readyz", "/readyz?verbose", "//metrics", "/%6detrics"] {
        HttpRequest::new("GET", inside).send(address).expect_status(404);
    }
    HttpRequest::new("GET", "/readyz").send(service.address()).expect_status(200);
    let through = Api { address: address.into(), ..api.clone() };
    let content = vec![7; UPLOAD_BYTES];
    through.upload_file("large.bin", &content).expect_status(201);
    assert!(through.download_file("/uploads/large.bin").body == content);
    let answer = through.wait_for_completion(&through.ask_question("hello"));
    assert_eq!(answer["status"], "completed");
}

#[test]
fn nginx_sample_passes_uploads_hides_monitoring() {
    if !is_installed("nginx") {
        return eprintln!("nginx is not installed: its sample was not tried");
    }
    let (service, api) = start_with_api();
    let port = ReservedPort::reserve();
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().display();
    let own = read_sample("nginx.conf");
    let own = own.replace("127.0.0.1:8080", service.address());
    let own = own.replace("listen 443 ssl http2", &format!("listen {}", port.address()));
    let own: Vec<&str> = own
        .lines()
        .filter(|line| !line.contains("ssl_certificate") && !line.contains("listen [::]"))
        .collect();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary: String = temporary.iter().map(|kind| format!("{kind}_temp_path {at}/{kind};\n")).collect();
    let whole = format!(
        "pid {at}/pid;\nerror_log {at}/error.log;\ndaemon off;\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}{}\n}}\n",
        own.join("\n")
    );
    let path = folder.path().join("nginx.conf");
    std::fs::write(&path, whole).expect("the configuration is written");
    let nginx =
        Command::new("nginx").arg("-e").arg(folder.path().join("error.log")).arg("-c").arg(&path).spawn();
    let _nginx = SampleProxy(nginx.expect("nginx starts"));
    keeps_its_promises(&service, &api, &port.address().to_string());
}

#[test]
fn caddy_sample_passes_uploads_hides_monitoring() {
    if !is_installed("caddy") {
        return eprintln!("caddy is not installed: its sample was not tried");
    }
    let (service, api) = start_with_api();
    let port = ReservedPort::reserve();
    let folder = tempfile::tempdir().expect("a folder");
    let own = read_sample("Caddyfile").replace("127.0.0.1:8080", service.address());
    let own = own.replace("causerie.example.org", &format!("http://{}", port.address()));
    let path = folder.path().join("Caddyfile");
    std::fs::write(&path, format!("{{\n\tadmin off\n}}\n{own}")).expect("the configuration is written");
    let mut caddy = Command::new("caddy");
    caddy.args(["run", "--adapter", "caddyfile", "--config"]).arg(&path);
    caddy.env("HOME", folder.path()).env("XDG_DATA_HOME", folder.path()).stderr(Stdio::null());
    let _caddy = SampleProxy(caddy.spawn().expect("caddy starts"));
    keeps_its_promises(&service, &api, &port.address().to_string());
}
