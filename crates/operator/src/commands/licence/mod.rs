//! Commands for licences.

pub(crate) mod set;
