//! Values as they are found in a source.

use serde_json::{Map, Value};

/// A value as found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Raw {
    /// A text in the file.
    Text(String),
    /// A text of an argument or a variable, which may represent a number as well.
    Typed(String),
    /// A number in the file.
    Number(String),
    /// A list of texts in the file.
    List(Vec<String>),
    /// True or false.
    Flag(bool),
    /// A table in the file that is not interpreted.
    Table(Map<String, Value>),
    /// A value in the file that no key accepts.
    Other(&'static str),
}

impl Raw {
    pub(crate) fn kind_name(&self) -> &'static str {
        match self {
            Self::Text(_) | Self::Typed(_) => "a text",
            Self::Number(_) => "a number",
            Self::List(_) => "a list",
            Self::Flag(_) => "true or false",
            Self::Table(_) => "a table",
            Self::Other(kind) => kind,
        }
    }
}
