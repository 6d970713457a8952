//! The frames of a turn.
