//! Connections that leave the host through a proxy, to a server with a certificate of a private authority.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use e2e::{ScriptedVendor, ServiceOptions, TestService, poll, scripted_vendor};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

/// The server behind the proxy. It is not in DNS.
const HOST: &str = "vendor.test";

fn fixture_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A proxy that speaks `CONNECT`. Behind it the vendor speaks TLS.
struct ConnectProxy {
    url: String,
    /// The heads of the requests for a connection.
    asked: Arc<Mutex<Vec<String>>>,
}

impl ConnectProxy {
    fn start_before(vendor: &ScriptedVendor) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://user:word@{}", listener.local_addr().expect("an address"));
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let base = vendor.base_url();
        let address = base.trim_start_matches("http://").trim_end_matches("/v1").to_owned();
        let (tls, heads) = (Arc::new(vendor_tls_config()), asked.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (tls, heads, address) = (tls.clone(), heads.clone(), address.clone());
                // A client that does not trust the server disconnects.
                thread::spawn(move || tunnel_request(stream, tls, &heads, &address));
            }
        });
        Self { url, asked }
    }

    fn connect_heads(&self) -> Vec<String> {
        self.asked.lock().expect("no thread failed").clone()
    }
}

fn vendor_tls_config() -> ServerConfig {
    let chain = CertificateDer::pem_file_iter(fixture_path("vendor.cert.pem")).expect("a file");
    let chain = chain.collect::<Result<Vec<_>, _>>().expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(fixture_path("vendor.key.pem")).expect("a key");
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("versions");
    builder.with_no_client_auth().with_single_cert(chain, key).expect("a certificate with its key")
}

/// Reads the head of a request.
fn read_head(reader: &mut impl BufRead) -> io::Result<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(head)
}

/// Carries one request and its response.
fn tunnel_request(
    mut stream: TcpStream,
    tls: Arc<ServerConfig>,
    heads: &Mutex<Vec<String>>,
    address: &str,
) -> io::Result<()> {
    // The client sends nothing else before it has the answer.
    let asked = read_head(&mut BufReader::new(&stream))?;
    heads.lock().expect("no thread failed").push(asked);
    stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n")?;
    let connection = ServerConnection::new(tls).map_err(io::Error::other)?;
    let mut inner = BufReader::new(StreamOwned::new(connection, stream));
    let request = read_head(&mut inner)?;
    let length = request.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    inner.read_exact(&mut body)?;
    let mut vendor = TcpStream::connect(address)?;
    vendor.write_all(request.as_bytes())?;
    vendor.write_all(&body)?;
    vendor.shutdown(Shutdown::Write)?;
    let mut inner = inner.into_inner();
    io::copy(&mut vendor, &mut inner)?;
    inner.conn.send_close_notify();
    inner.flush()
}

fn start_service(environment: &[(&str, &str)]) -> TestService {
    let base_url = format!("https://{HOST}/v1");
    let own = [("OPENAI_BASE_URL", base_url.as_str()), ("OPENAI_API_KEY", "sk-stand-in")];
    let environment = own.iter().chain(environment);
    let environment = environment.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    TestService::start(ServiceOptions { environment, ..ServiceOptions::default() })
}

fn check_answers(service: &TestService) {
    let api = service.api_for(&service.create_account());
    poll::wait_until("its models are listed", || {
        let models = api.get_catalog("models", None).json();
        models.as_array()?.iter().any(|model| model["id"] == scripted_vendor::MODEL).then_some(())
    });
    assert_eq!(api.wait_for_completion(&api.ask_question("Hello"))["text"], "Done.");
}

#[test]
fn vendor_reached_through_configured_proxy() {
    let vendor = ScriptedVendor::start();
    let proxy = ConnectProxy::start_before(&vendor);
    let authority = fixture_path("authority.cert.pem");
    let authority = ("CAUSERIE_OUTGOING_CA_FILE", authority.to_str().expect("a path"));
    check_answers(&start_service(&[("CAUSERIE_OUTGOING_PROXY", proxy.url.as_str()), authority]));
    let asked = proxy.connect_heads();
    assert!(!asked.is_empty());
    for head in asked {
        assert!(head.starts_with(&format!("CONNECT {HOST}:443 HTTP/1.1\r\n")), "{head}");
        // `user:word`
        assert!(head.to_lowercase().contains("proxy-authorization: basic dxnlcjp3b3jk"), "{head}");
    }
    // The usual proxy variables have the same effect.
    check_answers(&start_service(&[("HTTPS_PROXY", proxy.url.as_str()), authority]));
}

#[test]
fn unknown_authority_refused_and_logged() {
    let vendor = ScriptedVendor::start();
    let proxy = ConnectProxy::start_before(&vendor);
    let service = start_service(&[("CAUSERIE_OUTGOING_PROXY", proxy.url.as_str())]);
    let shown = poll::wait_until("the list has failed", || {
        let shown = service.run_admin_command(&["models"]);
        (shown["vendors"][0]["status"] == "DOWN").then_some(shown)
    });
    assert_eq!(shown["vendors"][0]["trouble"], json!("unreachable"), "{shown}");
    let cause = shown["vendors"][0]["cause"].as_str().unwrap_or_default().to_owned();
    assert!(cause.contains("certificate is not trusted"), "{cause}");
    assert!(!service.log_text().contains("user:word"), "no password of the proxy is logged");
    assert_eq!(vendor.request_bodies(), Vec::<Value>::new());
}

#[test]
fn no_proxy_hosts_connected_directly() {
    let vendor = ScriptedVendor::start();
    let proxy = ConnectProxy::start_before(&vendor);
    let mut environment = vendor.service_environment();
    environment.push(("CAUSERIE_OUTGOING_PROXY".to_owned(), proxy.url.clone()));
    check_answers(&TestService::start(ServiceOptions { environment, ..ServiceOptions::default() }));
    assert_eq!(proxy.connect_heads(), Vec::<String>::new(), "by default a server on this host");
}
