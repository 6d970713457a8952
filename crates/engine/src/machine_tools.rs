//! The tools of MCP servers that plugins bring and that run in the machines: which there are, as each machine tells.
//!
//! A list is kept for each account, because machines are hostile and one account's must not put words into another's
//! answers. While plugin and server stay the same nothing is started for it: the agent is asked with each link, and
//! says of a server that runs whether its list is another.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use domain::id::AccountId;
use domain::step::ToolSpec;
use machine::{ConnectionError, GuestConnection};
use plugins::McpServer;
use protocol::mcp::{Known, ServerTools, Told, ToolsReply, ToolsRequest};
use serde_json::json;
use tokio::time::{Instant, timeout};

/// How long a link waits for the lists. What begins more slowly is there for a later one.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server that is missing is not asked about.
const REST: Duration = Duration::from_secs(20);
/// Accounts whose lists are kept.
const ACCOUNTS_MAX: usize = 4096;
/// How many servers' failures are remembered as told.
const TOLD_MAX: usize = 1024;

/// The lists that machines told.
#[derive(Debug, Default)]
pub(super) struct MachineTools {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    accounts: HashMap<AccountId, HashMap<String, Listed>>,
    order: VecDeque<AccountId>,
    /// Lists are alike for most accounts, and then one.
    shared: HashMap<String, Weak<[ToolSpec]>>,
    /// Failures that the log has.
    told: HashSet<(String, String)>,
}

/// What one account's machine told of one server.
#[derive(Debug, Clone)]
struct Listed {
    version: String,
    /// As the agent calls the list; `None` while there is none.
    digest: Option<String>,
    tools: Arc<[ToolSpec]>,
    missing_until: Option<Instant>,
}

impl MachineTools {
    /// The tools of these servers in the connected machine. Takes seconds at most. Cancel safe.
    pub(super) async fn of(
        &self,
        account: AccountId,
        connection: &GuestConnection,
        servers: &[&McpServer],
    ) -> Vec<ToolSpec> {
        if servers.is_empty() {
            return Vec::new();
        }
        let known = self.known(account, servers);
        let rests = |name: &str| {
            let until = known.get(name).and_then(|listed| listed.missing_until);
            until.is_some_and(|until| until > Instant::now())
        };
        let resting = servers.iter().any(|server| rests(&server.spec.name));
        let has = |name: &str| known.get(name).is_some_and(|listed| listed.digest.is_some());
        let wanted = servers.iter().any(|server| !has(&server.spec.name) && !rests(&server.spec.name));
        if wanted || !resting {
            match timeout(LIST_TIMEOUT, ask(connection, &known)).await {
                Ok(Ok(told)) => self.take(account, servers, told),
                Ok(Err(error)) => tracing::debug!(%account, %error, "a machine listed no tools"),
                Err(_) => {
                    tracing::info!(%account, "MCP servers of a machine start slowly");
                    self.rest(account, servers, &known);
                }
            }
        }
        let known = self.known(account, servers);
        let lists = servers.iter().filter_map(|server| known.get(&server.spec.name));
        lists.flat_map(|listed| listed.tools.iter().cloned()).collect()
    }

    /// What is known of these servers in their present versions.
    fn known(&self, account: AccountId, servers: &[&McpServer]) -> HashMap<String, Listed> {
        let seen = self.lock();
        let Some(lists) = seen.accounts.get(&account) else { return HashMap::new() };
        let current = servers.iter().filter_map(|server| {
            let listed = lists.get(&server.spec.name)?;
            (listed.version == server.spec.version).then(|| (server.spec.name.clone(), listed.clone()))
        });
        current.collect()
    }

    /// Takes in what a machine told, as far as it was asked and is within bounds.
    fn take(&self, account: AccountId, servers: &[&McpServer], told: ToolsReply) {
        for ServerTools { name, version, tools } in told.servers {
            let asked = servers.iter().find(|server| server.spec.name == name);
            let Some(server) = asked.filter(|server| server.spec.version == version) else { continue };
            match tools {
                Told::Unchanged => {}
                Told::Tools { digest, list } => {
                    let grants = |tool: &str| {
                        server.spec.tools.as_ref().is_none_or(|granted| granted.iter().any(|one| one == tool))
                    };
                    let mut tools = Vec::new();
                    // It is a list, so it is a page.
                    let _ = mcp::tools_of_page(&name, &json!({ "tools": list }), grants, &mut tools);
                    let tools = self.one(&tools);
                    let listed = Listed { version, digest: Some(digest), tools, missing_until: None };
                    self.keep(account, name, listed);
                }
                Told::Missing { reason } => {
                    let reason = mcp::text::line(&reason);
                    self.tell(&server.plugin, &name, &reason);
                    let missing_until = Some(Instant::now() + REST);
                    self.keep(
                        account,
                        name,
                        Listed { version, digest: None, tools: Arc::new([]), missing_until },
                    );
                }
            }
        }
    }

    /// Leaves those alone that told nothing in time.
    fn rest(&self, account: AccountId, servers: &[&McpServer], known: &HashMap<String, Listed>) {
        for server in servers.iter().filter(|server| !known.contains_key(&server.spec.name)) {
            let version = server.spec.version.clone();
            let missing_until = Some(Instant::now() + REST);
            let listed = Listed { version, digest: None, tools: Arc::new([]), missing_until };
            self.keep(account, server.spec.name.clone(), listed);
        }
    }

    fn keep(&self, account: AccountId, server: String, listed: Listed) {
        let mut seen = self.lock();
        if !seen.accounts.contains_key(&account) {
            if seen.order.len() >= ACCOUNTS_MAX
                && let Some(oldest) = seen.order.pop_front()
            {
                seen.accounts.remove(&oldest);
            }
            seen.order.push_back(account);
        }
        let lists = seen.accounts.entry(account).or_default();
        if lists.len() >= mcp::SERVERS_MAX && !lists.contains_key(&server) {
            lists.clear(); // most of them are of plugins that are gone
        }
        lists.insert(server, listed);
    }

    /// The same list once, whichever machine told it.
    fn one(&self, tools: &[mcp::Tool]) -> Arc<[ToolSpec]> {
        let digest = mcp::digest(tools);
        let mut seen = self.lock();
        if let Some(shared) = seen.shared.get(&digest).and_then(Weak::upgrade) {
            return shared;
        }
        let list: Arc<[ToolSpec]> = tools.iter().map(|tool| tool.spec.clone()).collect();
        seen.shared.retain(|_, shared| shared.strong_count() > 0);
        seen.shared.insert(digest, Arc::downgrade(&list));
        list
    }

    /// Tells the operator why a server's tools are missing, once.
    pub(super) fn tell(&self, plugin: &str, server: &str, reason: &str) {
        let mut seen = self.lock();
        if seen.told.len() >= TOLD_MAX {
            seen.told.clear();
        }
        if seen.told.insert((server.to_owned(), reason.to_owned())) {
            tracing::warn!(plugin, server, reason, "MCP tool discovery failed in a machine");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the machine for the lists that are not known.
async fn ask(
    connection: &GuestConnection,
    known: &HashMap<String, Listed>,
) -> Result<ToolsReply, ConnectionError> {
    let known: BTreeMap<String, Known> = known
        .iter()
        .filter_map(|(name, listed)| {
            let (version, digest) = (listed.version.clone(), listed.digest.clone()?);
            Some((name.clone(), Known { version, digest }))
        })
        .collect();
    connection.list_tools(&ToolsRequest { known }).await
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn account() -> AccountId {
        AccountId::from_random(1)
    }

    fn server(name: &str, version: &str) -> McpServer {
        let spec = protocol::mcp::Server {
            name: name.to_owned(),
            version: version.to_owned(),
            command: "x".to_owned(),
            args: Vec::new(),
            env: BTreeMap::new(),
            folder: "/workspace".to_owned(),
            tools: None,
        };
        McpServer { plugin: "p".to_owned(), called: name.to_owned(), spec, read_only: Vec::new() }
    }

    fn told(name: &str, version: &str, tools: &[&str]) -> ToolsReply {
        let list = tools.iter().map(|tool| json!({ "name": tool, "inputSchema": {} })).collect();
        let tools = Told::Tools { digest: "d".to_owned(), list };
        ToolsReply {
            servers: vec![ServerTools { name: name.to_owned(), version: version.to_owned(), tools }],
        }
    }

    fn names(seen: &MachineTools, account: AccountId, server: &McpServer) -> Vec<String> {
        let known = seen.known(account, &[server]);
        let lists = known.values().flat_map(|listed| listed.tools.iter().map(|tool| tool.name.clone()));
        lists.collect()
    }

    #[test]
    fn a_machine_speaks_for_its_own_account_and_for_what_was_asked() {
        let (seen, one) = (MachineTools::default(), server("registry", "1"));
        seen.take(account(), &[&one], told("other", "1", &["a"]));
        seen.take(account(), &[&one], told("registry", "0", &["a"]));
        assert_eq!(names(&seen, account(), &one), [""; 0], "nobody asked for that");
        // Whatever it calls its tools, they are its server's.
        seen.take(account(), &[&one], told("registry", "1", &["a", "shell", "x__y", "č", "a"]));
        let tools = names(&seen, account(), &one);
        assert_eq!(tools.len(), 4, "{tools:?}");
        assert!(tools.iter().all(|tool| tool.starts_with("registry__")), "{tools:?}");
        assert_eq!(names(&seen, AccountId::from_random(2), &one), [""; 0]);
        assert_eq!(
            names(&seen, account(), &server("registry", "2")),
            [""; 0],
            "another version is another server"
        );
    }

    #[test]
    fn lists_that_are_alike_are_one_and_accounts_are_bounded() {
        let (seen, one) = (MachineTools::default(), server("registry", "1"));
        for account in 0..=ACCOUNTS_MAX as u128 {
            seen.take(AccountId::from_random(account), &[&one], told("registry", "1", &["a"]));
        }
        let of = |account: u128| {
            let known = seen.known(AccountId::from_random(account), &[&one]);
            known.into_values().next().map(|listed| listed.tools)
        };
        assert!(of(0).is_none(), "the oldest went");
        let (first, last) = (of(1).expect("a list"), of(ACCOUNTS_MAX as u128).expect("a list"));
        assert!(Arc::ptr_eq(&first, &last));
        assert_eq!(seen.lock().accounts.len(), ACCOUNTS_MAX);
    }
}
