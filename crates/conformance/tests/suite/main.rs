//! The suite: what the interface promises, a file a subject.

mod accounts;
mod additions;
mod authentication;
mod backup;
mod catalogs;
mod chats;
mod commands;
mod configuration;
mod connections;
mod coverage;
mod crash;
mod database;
mod figures;
mod hostile;
mod keys;
mod operator;
mod parts;
mod plugins;
mod rates;
mod shutdown;
mod streams;
mod streams_resumed;
mod tls;
mod versions;
mod vm;
