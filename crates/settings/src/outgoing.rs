//! How connections to other servers leave the host: a proxy, and authorities to trust.

use std::path::Path;
use std::sync::Arc;

use axum::http::Uri;
use domain::outgoing::{OutgoingConfig, ProxyChoice};
use domain::secret::Secret;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::form::{path_form, text_form};
use crate::source::{SettingSources, read_bounded_file};

/// The value for no proxy.
const NONE: &str = "none";
/// The hosts that are connected directly by default.
const EXCEPT: &str = "localhost,127.0.0.0/8,::1";
/// The maximum number of certificates in a file.
const AUTHORITIES_MAX: usize = 1000;

/// Reads the keys under `outgoing`.
pub(crate) fn read_outgoing(from: &mut SettingSources) -> OutgoingConfig {
    const PROXY: &str = "outgoing.proxy";
    const AUTHORITIES: &str = "outgoing.ca_file";
    let url = from.secret_value(PROXY, "outgoing.proxy_file");
    let except = from.value_or_default("outgoing.no_proxy", EXCEPT.to_owned(), text_form());
    let proxy = match url.as_deref() {
        None => ProxyChoice::Environment,
        Some(NONE) => ProxyChoice::Off,
        Some(url) if is_proxy(url) => ProxyChoice::Server { url: Secret::new(url), except },
        Some(_) => {
            // The URL may contain a password.
            from.record_problem(
                PROXY,
                "expected the URL of a proxy, such as http://proxy.example.org:3128, or none",
            );
            ProxyChoice::Environment
        }
    };
    let file = from.optional_value(AUTHORITIES, path_form());
    let authorities = file.map(|file| read_authorities(&file)).transpose().unwrap_or_else(|error| {
        from.record_problem(AUTHORITIES, error);
        None
    });
    OutgoingConfig { proxy, authorities: authorities.unwrap_or_default() }
}

/// Returns true for a URL of HTTP or HTTPS that ends after its host and port.
fn is_proxy(url: &str) -> bool {
    url.parse::<Uri>().is_ok_and(|url| {
        matches!(url.scheme_str(), Some("http" | "https"))
            && url.host().is_some_and(|host| !host.is_empty())
            && matches!(url.path_and_query().map(|path| path.as_str()), None | Some("/"))
    })
}

/// Reads the certificates of a file in PEM.
fn read_authorities(file: &Path) -> Result<Arc<[Vec<u8>]>, String> {
    let pem = read_bounded_file(file)?;
    let mut found = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| format!("{}: {error}", file.display()))?;
        found.push(certificate.to_vec());
    }
    match found.len() {
        0 => Err(format!("{}: no PEM certificate found", file.display())),
        1..=AUTHORITIES_MAX => Ok(found.into()),
        _ => Err(format!("{}: at most {AUTHORITIES_MAX} certificates are allowed", file.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_a_plain_address() {
        for url in ["http://proxy:3128", "http://user:word@192.0.2.1:3128/", "https://[::1]:443"] {
            assert!(is_proxy(url), "{url}");
        }
        for url in
            ["proxy:3128", "socks5://proxy", "http://", "/proxy", "http://proxy/path", "http://proxy?x"]
        {
            assert!(!is_proxy(url), "{url}");
        }
    }

    #[test]
    fn read_authorities_requires_certificate() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, "no certificate").expect("a file");
        assert!(read_authorities(&file).is_err_and(|error| error.contains("no PEM certificate found")));
        assert!(read_authorities(&folder.path().join("missing")).is_err());
    }
}
