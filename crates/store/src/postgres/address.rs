//! Parses the URL of a server: its address, credentials and TLS mode.

use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, Connection, Socket};

use super::error::format_error_chain;
use super::tls::{PgTls, PgTlsStream, TlsVerification};
use crate::error::StoreError;
use crate::sql::Result;

/// The time limit for establishing a connection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit for cancelling a statement.
const CANCEL_MAX: Duration = Duration::from_secs(2);
/// The longest time that sent data may stay unacknowledged (`TCP_USER_TIMEOUT`).
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(20);

/// A server and the verification of its certificate.
#[derive(Clone)]
pub(crate) struct PgAddress {
    config: Config,
    tls: PgTls,
}

impl PgAddress {
    /// Parses a URL as libpq does. Supports the `sslmode`s `disable`, `prefer`, `require`, `verify-ca` and
    /// `verify-full`. `sslrootcert` replaces the system's certificates for the latter two, and turns
    /// `require` into `verify-ca`.
    ///
    /// # Errors
    /// [`StoreError::Engine`] if the URL is invalid. The message does not contain the password.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let Split { url, mode, roots } = Split::from_url(url)?;
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            url_error(&format!("invalid database URL: {}", format_error_chain(&error)))
        })?;
        let local = config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)));
        let (encrypt, proof) = match (mode.as_deref().unwrap_or("prefer"), roots) {
            ("disable", _) => (SslMode::Disable, TlsVerification::None),
            // A socket leads to a server on this host.
            ("prefer", _) if local => (SslMode::Disable, TlsVerification::None),
            ("prefer", _) => (SslMode::Prefer, TlsVerification::None),
            ("require", None) => (SslMode::Require, TlsVerification::None),
            ("require" | "verify-ca", roots) => (SslMode::Require, TlsVerification::Chain(roots)),
            ("verify-full", roots) => (SslMode::Require, TlsVerification::Name(roots)),
            (other, _) => {
                return Err(url_error(&format!(
                    "unknown sslmode {other:?} in the database URL: use disable, prefer, require, verify-ca or \
                     verify-full"
                )));
            }
        };
        config.ssl_mode(encrypt);
        let tls = PgTls::new(proof).map_err(|error| url_error(&error))?;
        if config.get_application_name().is_none() {
            config.application_name("causerie");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(UNACKNOWLEDGED_MAX);
        }
        Ok(Self { config, tls })
    }

    pub(super) async fn connect_client(
        &self,
    ) -> std::result::Result<(Client, Connection<Socket, PgTlsStream>), tokio_postgres::Error> {
        self.config.connect(self.tls.clone()).await
    }

    /// Cancels the running statement of `client`'s session, over a separate connection.
    pub(super) async fn cancel_statement(&self, client: &Client) {
        let token = client.cancel_token();
        let cancelling = token.cancel_query(self.tls.clone());
        if let Ok(Err(error)) = tokio::time::timeout(CANCEL_MAX, cancelling).await {
            tracing::debug!(error = format_error_chain(&error), "query cancellation failed");
        }
    }
}

fn url_error(why: &str) -> StoreError {
    StoreError::Engine(why.to_owned())
}

/// A URL without the parameters that the driver does not support.
struct Split {
    url: String,
    mode: Option<String>,
    roots: Option<PathBuf>,
}

impl Split {
    fn from_url(url: &str) -> Result<Self> {
        let mut split = Self { url: url.to_owned(), mode: None, roots: None };
        let place = url.split_once("://").map_or(url, |(_, rest)| rest);
        let place = place.split(['/', '?']).next().unwrap_or_default();
        if place.matches('@').count() > 1 || (url.contains('@') && !place.contains('@')) {
            return Err(url_error(
                "in the database's URL the signs @, / and ? of a user, a password or a parameter are written \
                 %40, %2F and %3F",
            ));
        }
        let Some(query) = url.find('?') else { return Ok(split) };
        let mut remaining = Vec::new();
        for parameter in url[query + 1..].split('&') {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let decoded = percent_decode_str(value).decode_utf8().map(std::borrow::Cow::into_owned);
            let decoded = decoded.map_err(|_| url_error("a parameter of the database URL is not UTF-8"));
            match name {
                "sslmode" => split.mode = Some(decoded?),
                "sslrootcert" => {
                    split.roots = Some(decoded?).filter(|file| file != "system").map(PathBuf::from)
                }
                _ => remaining.push(parameter),
            }
        }
        split.url = format!("{}?{}", &url[..query], remaining.join("&"));
        if remaining.is_empty() {
            split.url.pop();
        }
        Ok(split)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_ssl_mode(url: &str) -> SslMode {
        PgAddress::parse(url).unwrap_or_else(|error| unreachable!("{url}: {error}")).config.get_ssl_mode()
    }

    #[test]
    fn parse_invalid_url_hides_password() {
        for url in [
            "postgres://u:secret@h/d?sslmode=allways",
            "postgres://u:secret@h:x/d",
            "postgres://u:se@secret@h/d",
            "postgres://u:?secret@h/d",
            "postgres://h/d?password=a@secret",
            "postgres://u:secret@h/d?sslmode=verify-full&sslrootcert=/no/such/file.pem",
            "postgres://u:secret@h/d?sslcert=/own.pem",
        ] {
            let refused = PgAddress::parse(url).err().unwrap_or_else(|| unreachable!("{url} is accepted"));
            assert!(!refused.to_string().contains("secret"), "{refused}");
        }
    }

    #[test]
    fn sslmode_selects_encryption() {
        assert_eq!(
            parse_ssl_mode("postgres://u@/d?host=/run/postgresql"),
            SslMode::Disable,
            "a socket is no network"
        );
        assert_eq!(parse_ssl_mode("postgresql://u:p@h:1/d"), SslMode::Prefer);
        assert_eq!(
            parse_ssl_mode("postgresql://u:p@h:1/d?sslmode=disable&application_name=x"),
            SslMode::Disable
        );
        assert_eq!(
            parse_ssl_mode("postgresql://u:p@h:1/d?connect_timeout=3&sslmode=require"),
            SslMode::Require
        );
        assert_eq!(parse_ssl_mode("postgresql://u:%40%3F%2F@h:1/d?sslmode=require&"), SslMode::Require);
    }
}
