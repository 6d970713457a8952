//! The URL of a database, as operators configure it.

use std::fmt;

use crate::error::StoreError;

/// A database URL, `postgres://…` or `sqlite:…`. `Display` and `Debug` do not reveal its password.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(String);

impl DatabaseUrl {
    /// Returns the full URL including the password, for [`crate::Store::connect`].
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Checks that the URL can be parsed.
    ///
    /// # Errors
    /// A reason without the password.
    pub fn check_syntax(&self) -> Result<(), StoreError> {
        let server = ["postgres://", "postgresql://"].iter().any(|scheme| self.0.starts_with(scheme));
        if !server && !self.0.starts_with("sqlite:") {
            return Err(StoreError::Rule("a database URL must begin with postgres:// or sqlite:"));
        }
        #[cfg(feature = "postgres")]
        if server {
            crate::postgres::PgAddress::parse(&self.0)?;
        }
        Ok(())
    }
}

/// Accepts any text; the URL is checked when it is used. A command-line parser would print a rejected value.
impl From<String> for DatabaseUrl {
    fn from(text: String) -> Self {
        Self(text.trim().to_owned())
    }
}

/// Shows the server and the database's name, without user, password and parameters.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((scheme, rest)) = self.0.split_once("://") else { return f.write_str(&self.0) };
        let rest = rest.split_once('@').map_or(rest, |(_, place)| place);
        write!(f, "{scheme}://{}", rest.split('?').next().unwrap_or_default())
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_shows_no_password() {
        for url in
            ["postgres://u:s3cret@h:5/d?x=1", "postgres://h/d?password=s3cret", "postgres://u:s3c@ret@h/d"]
        {
            let url = DatabaseUrl::from(url.to_owned());
            assert!(!format!("{url} {url:?} {:?}", url.check_syntax()).contains("s3c"), "{url}");
        }
        let url = DatabaseUrl::from("postgres://u:p@h:5/d?sslmode=disable\n".to_owned());
        assert!(url.check_syntax().is_ok());
        assert_eq!(url.to_string(), "postgres://h:5/d");
        let wrong = DatabaseUrl::from("mysql://u:s3cret@h/d".to_owned()).check_syntax();
        assert!(wrong.is_err_and(|error| !error.to_string().contains("s3c")));
    }
}
