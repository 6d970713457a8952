//! Attacks by documents, tool outputs and file names on a model that obeys them.
//!
//! The fake model `obey` follows every instruction that it reads: `CALL tool {…}` in a document, an output or
//! a name makes it call that tool, `SAY words` makes it write them. So a protection that passes here does not
//! depend on the model.

mod bombs;
mod model;
mod names;
mod orders;
mod stage;
mod trap;
mod walls;
