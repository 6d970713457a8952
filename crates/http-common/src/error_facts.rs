//! The facts of an error response, for a face with another form of errors.

/// The code and the message of an error response, among its extensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorFacts {
    /// The code, for programs: upper snake case.
    pub code: &'static str,
    pub message: String,
}
