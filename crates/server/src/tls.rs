//! TLS from certificate files, which SIGHUP reloads.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// The largest certificate or key file, in bytes.
const FILE_MAX_BYTES: u64 = 1 << 20;
/// The offered protocols, in order of preference.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The paths of the certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and its intermediate certificates, in PEM.
    pub certificate: PathBuf,
    /// The private key, in PEM.
    pub key: PathBuf,
}

/// The reason why the TLS files are unusable. Contains no part of the key.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    File(PathBuf, std::io::Error),
    /// A file is too large.
    #[error("{}: file is larger than {FILE_MAX_BYTES} bytes", .0.display())]
    TooLarge(PathBuf),
    /// The file contains no certificate.
    #[error("{}: no PEM certificate found", .0.display())]
    NoCertificate(PathBuf),
    /// The file contains no key.
    #[error("{}: no PEM private key found", .0.display())]
    NoKey(PathBuf),
    /// The certificate and key do not match, or are not supported.
    #[error("certificate and key are unusable: {0}")]
    Unusable(#[source] rustls::Error),
}

/// The reloadable TLS configuration. Cheap to clone; all clones see a change.
#[derive(Clone)]
pub struct ReloadableTls {
    files: TlsFiles,
    config: Arc<RwLock<Arc<ServerConfig>>>,
}

impl ReloadableTls {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn from_files(files: TlsFiles) -> Result<Self, TlsError> {
        let config = Arc::new(RwLock::new(load_server_config(&files)?));
        Ok(Self { files, config })
    }

    /// Reloads the files for new connections. If they are unusable, the current configuration stays.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn reload(&self) -> Result<(), TlsError> {
        let config = load_server_config(&self.files)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// Returns the current acceptor.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

fn load_server_config(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(&read_pem_file(&files.certificate)?).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let chain = chain.ok_or_else(|| TlsError::NoCertificate(files.certificate.clone()))?;
    let key = PrivateKeyDer::from_pem_slice(&read_pem_file(&files.key)?);
    let key = key.map_err(|_| TlsError::NoKey(files.key.clone()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(TlsError::Unusable)?;
    config.alpn_protocols = PROTOCOLS.iter().map(|name| name.to_vec()).collect();
    Ok(Arc::new(config))
}

fn read_pem_file(path: &Path) -> Result<Vec<u8>, TlsError> {
    use std::io::Read;
    let failed = |error| TlsError::File(path.to_owned(), error);
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_MAX_BYTES { Err(TlsError::TooLarge(path.to_owned())) } else { Ok(bytes) }
}
