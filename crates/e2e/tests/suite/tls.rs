//! TLS with certificate files.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use e2e::{ServiceOptions, TestService, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned};
use test_support::port::ReservedPort;

/// Accepts any certificate, which the test checks itself. The server must still prove possession of its key.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Opens a connection that offers these protocols, and completes its handshake.
fn connect_tls(
    address: &str,
    protocols: &[&str],
) -> std::io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut stream = StreamOwned::new(connection, stream);
    stream.conn.complete_io(&mut stream.sock)?;
    Ok(stream)
}

/// Returns the certificate of a new connection.
fn peer_certificate(address: &str) -> Option<CertificateDer<'static>> {
    let stream = connect_tls(address, &[]).ok()?;
    Some(stream.conn.peer_certificates()?.first()?.clone().into_owned())
}

fn fixture_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn fixture_certificate(name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(fixture_path(&format!("{name}.cert.pem"))).expect("a certificate")
}

struct TlsService {
    child: Child,
    address: String,
    /// Holds the address while the service is started again.
    _port: ReservedPort,
    folder: PathBuf,
}

impl TlsService {
    /// Starts a service that uses the certificate `first`, with its files in the other service's home.
    fn start_with_certificate(home: &TestService) -> Self {
        let folder = home.data_folder().with_file_name("encrypted");
        std::fs::create_dir(&folder).expect("a folder");
        let port = ReservedPort::reserve();
        let address = port.address().to_string();
        let mut this =
            Self { child: Self::spawn_service(home, &folder, &address), address, _port: port, folder };
        this.place_certificate("first");
        poll::wait_until("it speaks", || {
            // The files did not exist yet.
            if this.child.try_wait().expect("it can be looked at").is_some() {
                this.child = Self::spawn_service(home, &this.folder, &this.address);
            }
            peer_certificate(&this.address)
        });
        this
    }

    fn spawn_service(home: &TestService, folder: &Path, address: &str) -> Child {
        let mut command = home.build_command();
        command.args(["serve", "--listen", address, "--data"]).arg(folder.join("data"));
        command.env("CAUSERIE_TLS_CERTIFICATE_FILE", folder.join("cert.pem"));
        command.env("CAUSERIE_TLS_KEY_FILE", folder.join("key.pem"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("the binary can be run")
    }

    fn place_certificate(&self, name: &str) {
        for kind in ["cert", "key"] {
            let to = self.folder.join(format!("{kind}.pem"));
            std::fs::copy(fixture_path(&format!("{name}.{kind}.pem")), to).expect("a copy");
        }
    }

    fn hang_up(&self) {
        kill_process(Pid::from_child(&self.child), Signal::HUP).expect("it runs");
    }
}

impl Drop for TlsService {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn tls_certificate_is_reloaded() {
    let home = TestService::start(ServiceOptions::default());
    let service = TlsService::start_with_certificate(&home);
    assert_eq!(peer_certificate(&service.address), Some(fixture_certificate("first")));
    // HTTP/1.1 for clients that offer nothing else.
    let mut plain = connect_tls(&service.address, &["http/1.1"]).expect("a connection");
    assert_eq!(plain.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").expect("it is open");
    let mut head = [0; 12];
    plain.read_exact(&mut head).expect("an answer");
    assert_eq!(&head, b"HTTP/1.1 200");
    // HTTP/2 for clients that offer both; it begins with SETTINGS (RFC 9113, 3.4 and 6.5).
    let mut newer = connect_tls(&service.address, &["h2", "http/1.1"]).expect("a connection");
    assert_eq!(newer.conn.alpn_protocol(), Some(&b"h2"[..]));
    newer.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").expect("it is open");
    let mut frame = [0; 9];
    newer.read_exact(&mut frame).expect("a frame");
    assert_eq!(frame[3], 4, "settings");
    // Plain HTTP gets no response.
    assert_eq!(
        e2e::connection::send_bytes(&service.address, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            .expect("it listens"),
        None
    );
    service.place_certificate("second");
    service.hang_up();
    poll::wait_until("the new certificate is shown", || {
        peer_certificate(&service.address).filter(|shown| *shown == fixture_certificate("second"))
    });
    // Invalid files change nothing, and the service continues.
    std::fs::write(service.folder.join("key.pem"), "no key").expect("a file");
    service.hang_up();
    service.hang_up();
    assert_eq!(peer_certificate(&service.address), Some(fixture_certificate("second")));
    service.place_certificate("first");
    service.hang_up();
    poll::wait_until("it reads on", || {
        peer_certificate(&service.address).filter(|shown| *shown == fixture_certificate("first"))
    });
}

#[test]
fn mismatched_tls_files_are_refused() {
    let home = TestService::start(ServiceOptions::default());
    let check = |certificate: &str, key: &str| {
        let file = home.data_folder().with_file_name("causerie.toml");
        let path = |name: &str| fixture_path(name).display().to_string();
        let mut content = String::new();
        for (name, value) in [("certificate_file", certificate), ("key_file", key)] {
            if !value.is_empty() {
                content.push_str(&format!("tls.{name} = \"{}\"\n", path(value)));
            }
        }
        std::fs::write(&file, content).expect("a file");
        let output =
            home.build_command().args(["config", "check"]).arg(file).output().expect("the binary can be run");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert!(check("first.cert.pem", "first.key.pem").0);
    for (certificate, key) in [
        ("first.cert.pem", "second.key.pem"),
        ("first.key.pem", "first.key.pem"),
        ("first.cert.pem", "first.cert.pem"),
        ("first.cert.pem", "none.pem"),
        ("first.cert.pem", ""),
        ("", "first.key.pem"),
    ] {
        let (good, output) = check(certificate, key);
        assert!(
            !good && output.contains("tls.") && !output.contains("PRIVATE"),
            "{certificate} {key}: {output}"
        );
    }
}

#[test]
fn commands_trust_given_certificates() {
    let home = TestService::start(ServiceOptions::default());
    let service = TlsService::start_with_certificate(&home);
    let list = |scheme: &str, certificates: Option<&str>| {
        let mut command = home.build_command();
        command.args(["ls", "--url", &format!("{scheme}://{}", service.address), "--key", "api-wrong"]);
        command.envs(certificates.map(|name| ("CAUSERIE_CACERT", fixture_path(name))));
        let output = command.output().expect("the binary can be run");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, stderr) = list("https", Some("first.cert.pem"));
    assert!(code == Some(3) && stderr.contains("401"), "the service was reached: {stderr}");
    let (code, stderr) = list("https", Some("second.cert.pem"));
    assert!(code == Some(1) && stderr.contains("--cacert"), "another certificate: {stderr}");
    let (code, stderr) = list("https", None);
    assert!(code == Some(1) && stderr.contains("--cacert"), "{stderr}");
    let (code, stderr) = list("http", None);
    assert!(code == Some(1) && stderr.contains("try https://"), "{stderr}");
    for scheme in ["http", "https"] {
        let (code, stderr) = list(scheme, Some("first.key.pem"));
        assert!(code == Some(1) && stderr.contains("no certificate"), "{stderr}");
    }
}
