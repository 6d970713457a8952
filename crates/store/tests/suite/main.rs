//! The guarantees of the store, tested on both engines.
//!
//! Each test uses [`fixture::StoreFixture`] and runs once per [`fixture::StoreEngine`]. [`coverage`] fails if no test
//! calls a public operation.

#![expect(clippy::panic, reason = "there is nothing but tests in here")]

/// Runs the named tests of a module on every engine.
macro_rules! on_every_engine {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name(crate::fixture::StoreEngine::Sqlite).await;
                }
            )+
        }
        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name(crate::fixture::StoreEngine::Postgres).await;
                }
            )+
        }
    };
}

mod accounts;
mod backlog;
mod branches;
mod broken;
mod client_histories;
mod closing;
mod conversations;
mod coverage;
mod delegations;
mod embeddings;
mod fixture;
mod full;
mod identities;
mod jobs;
mod kill;
mod ledger;
mod pauses;
mod plain_steps;
mod questions;
mod races;
mod search;
mod serving;
mod sessions;
mod skills;
mod transactions;
mod turns;
mod usage;
