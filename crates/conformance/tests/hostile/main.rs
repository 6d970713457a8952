//! Everything that a document, a tool's output, a file's name and a model that obeys them can try.
//!
//! The stand-in's model `obey` does whatever it reads: `CALL tool {…}` in a document, an output or a name makes
//! it call that tool, `SAY words` makes it say them. So a wall that holds here holds without the model's help.

mod bombs;
mod model;
mod names;
mod orders;
mod stage;
mod trap;
mod walls;
