//! The server of the Model Context Protocol at `/mcp`, called with raw JSON.

mod protocol;
mod resources;
mod stage;
mod tasks;
mod tools;
mod waiting;
