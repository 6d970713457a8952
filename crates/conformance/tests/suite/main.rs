//! The suite: what the interface promises, a file a subject.

mod accounts;
mod additions;
mod authentication;
mod backup;
mod catalogs;
mod chats;
mod commands;
mod configuration;
mod coverage;
mod crash;
mod database;
mod errors;
mod files;
mod folders;
mod hostile;
mod keys;
mod operator;
mod parts;
mod streams;
mod streams_resumed;
mod vm;
