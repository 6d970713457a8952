//! The tools of MCP servers that plugins bring and that run in the machines, as each machine lists them.
//!
//! Lists are stored per account, because machines are untrusted and one account's list must not reach the answers of
//! another. While plugin and server stay the same, no server is started for its list: the agent is asked with each
//! session, and reports for a running server whether its list has changed.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use domain::id::AccountId;
use domain::step::ToolSpec;
use machine::{GuestConnection, GuestConnectionError};
use plugins::McpServer;
use protocol::mcp::{KnownToolList, LIST_WAIT_SECONDS, ServerTools, ToolsReply, ToolsRequest, ToolsUpdate};
use serde_json::json;
use tokio::time::{Instant, timeout};

/// The time that a session waits for the lists, beyond that of the agent for its servers. Lists of slower servers are available
/// to later sessions.
const LIST_TIMEOUT: Duration = Duration::from_secs(LIST_WAIT_SECONDS + 2);
/// The time for which a missing server is not asked for again.
const REST: Duration = Duration::from_secs(20);
/// The number of accounts whose lists are cached.
const ACCOUNTS_MAX: usize = 4096;
/// The number of failures and skipped tools that are remembered as logged.
const LOGGED_MAX: usize = 1024;

/// The tool lists that machines reported.
#[derive(Debug, Default)]
pub(super) struct MachineTools {
    seen: Mutex<SeenToolLists>,
}

#[derive(Debug, Default)]
struct SeenToolLists {
    accounts: HashMap<AccountId, HashMap<String, ListedTools>>,
    order: VecDeque<AccountId>,
    /// Lists that are equal for several accounts, stored once.
    shared: HashMap<String, Weak<[ToolSpec]>>,
    /// The server, the tool and the reason of each line that was logged.
    logged: HashSet<[String; 3]>,
}

/// A tool list that an account's machine reported for one server.
#[derive(Debug, Clone)]
struct ListedTools {
    version: String,
    /// The agent's digest of the list; `None` without a list.
    digest: Option<String>,
    tools: Arc<[ToolSpec]>,
    missing_until: Option<Instant>,
}

impl MachineTools {
    /// Returns the tools of these servers in the connected machine. Takes a few seconds at most. Cancel safe.
    pub(super) async fn list_tools(
        &self,
        account: AccountId,
        connection: &GuestConnection,
        servers: &[&McpServer],
    ) -> Vec<ToolSpec> {
        if servers.is_empty() {
            return Vec::new();
        }
        let known = self.known_lists(account, servers);
        let rests = |name: &str| {
            let until = known.get(name).and_then(|listed| listed.missing_until);
            until.is_some_and(|until| until > Instant::now())
        };
        let resting = servers.iter().any(|server| rests(&server.spec.name));
        let has = |name: &str| known.get(name).is_some_and(|listed| listed.digest.is_some());
        let wanted = servers.iter().any(|server| !has(&server.spec.name) && !rests(&server.spec.name));
        if wanted || !resting {
            match timeout(LIST_TIMEOUT, request_lists(connection, &known)).await {
                Ok(Ok(reply)) => self.store_lists(account, servers, reply),
                Ok(Err(error)) => tracing::debug!(%account, %error, "tool discovery failed in a machine"),
                Err(_) => {
                    tracing::info!(%account, "tool discovery timed out in a machine");
                    self.mark_missing(account, servers, &known);
                }
            }
        }
        let known = self.known_lists(account, servers);
        let lists = servers.iter().filter_map(|server| known.get(&server.spec.name));
        lists.flat_map(|listed| listed.tools.iter().cloned()).collect()
    }

    /// Returns the known lists of these servers in their present versions.
    fn known_lists(&self, account: AccountId, servers: &[&McpServer]) -> HashMap<String, ListedTools> {
        let seen = self.lock_seen();
        let Some(lists) = seen.accounts.get(&account) else { return HashMap::new() };
        let current = servers.iter().filter_map(|server| {
            let listed = lists.get(&server.spec.name)?;
            (listed.version == server.spec.version).then(|| (server.spec.name.clone(), listed.clone()))
        });
        current.collect()
    }

    /// Stores the reported lists that were requested and are within limits.
    fn store_lists(&self, account: AccountId, servers: &[&McpServer], reply: ToolsReply) {
        for ServerTools { name, version, tools } in reply.servers {
            let asked = servers.iter().find(|server| server.spec.name == name);
            let Some(server) = asked.filter(|server| server.spec.version == version) else { continue };
            match tools {
                ToolsUpdate::Unchanged => {}
                ToolsUpdate::Tools { digest, list, skipped } => {
                    let grants = |tool: &str| {
                        server.spec.tools.as_ref().is_none_or(|granted| granted.iter().any(|one| one == tool))
                    };
                    let mut listed = mcp::ToolList::default();
                    for tool in skipped {
                        listed.skip(&tool.name, &tool.reason);
                    }
                    // The value has the form of a page.
                    let _ = mcp::tools_of_page(&name, &json!({ "tools": list }), grants, &mut listed);
                    self.tell_skipped(&server.plugin, &name, &listed.skipped);
                    let tools = self.share_list(&listed.tools);
                    let listed = ListedTools { version, digest: Some(digest), tools, missing_until: None };
                    self.keep_list(account, name, listed);
                }
                ToolsUpdate::Missing { reason } => {
                    let reason = mcp::text::single_line(&reason);
                    self.log_missing(&server.plugin, &name, &reason);
                    let missing_until = Some(Instant::now() + REST);
                    self.keep_list(
                        account,
                        name,
                        ListedTools { version, digest: None, tools: Arc::new([]), missing_until },
                    );
                }
            }
        }
    }

    /// Marks the servers without a list as missing, from now on, after a machine has reported nothing in time.
    fn mark_missing(&self, account: AccountId, servers: &[&McpServer], known: &HashMap<String, ListedTools>) {
        let has = |name: &str| known.get(name).is_some_and(|listed| listed.digest.is_some());
        for server in servers.iter().filter(|server| !has(&server.spec.name)) {
            let version = server.spec.version.clone();
            let missing_until = Some(Instant::now() + REST);
            let listed = ListedTools { version, digest: None, tools: Arc::new([]), missing_until };
            self.keep_list(account, server.spec.name.clone(), listed);
        }
    }

    fn keep_list(&self, account: AccountId, server: String, listed: ListedTools) {
        let mut seen = self.lock_seen();
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
            lists.clear(); // most belong to removed plugins
        }
        lists.insert(server, listed);
    }

    /// Returns a shared copy of the list, whichever machine reported it.
    fn share_list(&self, tools: &[mcp::McpTool]) -> Arc<[ToolSpec]> {
        let digest = mcp::tools_digest(tools, &[]);
        let mut seen = self.lock_seen();
        if let Some(shared) = seen.shared.get(&digest).and_then(Weak::upgrade) {
            return shared;
        }
        let list: Arc<[ToolSpec]> = tools.iter().map(|tool| tool.spec.clone()).collect();
        seen.shared.retain(|_, shared| shared.strong_count() > 0);
        seen.shared.insert(digest, Arc::downgrade(&list));
        list
    }

    /// Logs once why a server's tools are missing.
    pub(super) fn log_missing(&self, plugin: &str, server: &str, reason: &str) {
        if self.is_news(server, "", reason) {
            tracing::warn!(plugin, server, reason, "MCP tool discovery failed in a machine");
        }
    }

    /// Logs once which tools of a server cannot be offered.
    fn tell_skipped(&self, plugin: &str, server: &str, skipped: &[mcp::SkippedTool]) {
        for mcp::SkippedTool { name, reason } in skipped {
            if self.is_news(server, name, reason) {
                tracing::warn!(plugin, server, tool = name, reason, "MCP tool skipped in a machine");
            }
        }
    }

    /// Returns true if this was not logged before.
    fn is_news(&self, server: &str, tool: &str, reason: &str) -> bool {
        let mut seen = self.lock_seen();
        if seen.logged.len() >= LOGGED_MAX {
            seen.logged.clear();
        }
        seen.logged.insert([server, tool, reason].map(ToOwned::to_owned))
    }

    fn lock_seen(&self) -> MutexGuard<'_, SeenToolLists> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the machine for the unknown lists.
async fn request_lists(
    connection: &GuestConnection,
    known: &HashMap<String, ListedTools>,
) -> Result<ToolsReply, GuestConnectionError> {
    let known: BTreeMap<String, KnownToolList> = known
        .iter()
        .filter_map(|(name, listed)| {
            let (version, digest) = (listed.version.clone(), listed.digest.clone()?);
            Some((name.clone(), KnownToolList { version, digest }))
        })
        .collect();
    connection.list_tools(&ToolsRequest { known }).await
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use protocol::mcp::SkippedTool;

    use super::*;

    fn sample_account() -> AccountId {
        AccountId::from_random(1)
    }

    fn mcp_server(name: &str, version: &str) -> McpServer {
        let spec = protocol::mcp::McpServerSpec {
            name: name.to_owned(),
            version: version.to_owned(),
            command: "x".to_owned(),
            args: Vec::new(),
            env: BTreeMap::new(),
            folder: "/workspace".to_owned(),
            data_folder: None,
            tools: None,
        };
        McpServer { plugin: "p".to_owned(), called: name.to_owned(), spec, read_only: Vec::new() }
    }

    fn tools_reply(name: &str, version: &str, tools: &[&str]) -> ToolsReply {
        let list = tools.iter().map(|tool| json!({ "name": tool, "inputSchema": {} })).collect();
        let tools = ToolsUpdate::Tools { digest: "d".to_owned(), list, skipped: Vec::new() };
        ToolsReply {
            servers: vec![ServerTools { name: name.to_owned(), version: version.to_owned(), tools }],
        }
    }

    fn known_names(seen: &MachineTools, account: AccountId, server: &McpServer) -> Vec<String> {
        let known = seen.known_lists(account, &[server]);
        let lists = known.values().flat_map(|listed| listed.tools.iter().map(|tool| tool.name.clone()));
        lists.collect()
    }

    #[test]
    fn lists_stay_within_account_and_request() {
        let (seen, one) = (MachineTools::default(), mcp_server("registry", "1"));
        seen.store_lists(sample_account(), &[&one], tools_reply("other", "1", &["a"]));
        seen.store_lists(sample_account(), &[&one], tools_reply("registry", "0", &["a"]));
        assert_eq!(known_names(&seen, sample_account(), &one), [""; 0], "nobody asked for that");
        // Tools belong to their server, regardless of their names.
        seen.store_lists(
            sample_account(),
            &[&one],
            tools_reply("registry", "1", &["a", "shell", "x__y", "č", "a"]),
        );
        let tools = known_names(&seen, sample_account(), &one);
        assert_eq!(tools.len(), 4, "{tools:?}");
        assert!(tools.iter().all(|tool| tool.starts_with("registry__")), "{tools:?}");
        assert_eq!(known_names(&seen, AccountId::from_random(2), &one), [""; 0]);
        assert_eq!(
            known_names(&seen, sample_account(), &mcp_server("registry", "2")),
            [""; 0],
            "another version is another server"
        );
    }

    #[test]
    fn skipped_tool_logged_once() {
        let (seen, one) = (MachineTools::default(), mcp_server("registry", "1"));
        let update = |skipped: &[&str]| {
            let list = vec![json!({ "name": "good" }), json!({ "name": "odd", "inputSchema": 7 })];
            let skipped = skipped.iter().map(|name| SkippedTool {
                name: (*name).to_owned(),
                reason: "its input schema is not a JSON object".to_owned(),
            });
            let tools = ToolsUpdate::Tools { digest: "d".to_owned(), list, skipped: skipped.collect() };
            let (name, version) = ("registry".to_owned(), "1".to_owned());
            ToolsReply { servers: vec![ServerTools { name, version, tools }] }
        };
        for (account, skipped, logged) in [(1, &["a"][..], 2), (2, &["a"], 2), (1, &["a\u{202e}", "b"], 3)] {
            seen.store_lists(AccountId::from_random(account), &[&one], update(skipped));
            assert_eq!(seen.lock_seen().logged.len(), logged, "{skipped:?}");
        }
        assert_eq!(known_names(&seen, sample_account(), &one), ["registry__good"]);
        assert!(seen.is_news("registry", "odd", "another reason"));
        assert!(!seen.is_news("registry", "odd", "its input schema is not a JSON object"));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_machine_marks_servers_missing() {
        let (seen, slow, listed) =
            (MachineTools::default(), mcp_server("slow", "1"), mcp_server("listed", "1"));
        let servers = [&slow, &listed];
        seen.store_lists(sample_account(), &servers, tools_reply("listed", "1", &["a"]));
        for _ in 0..3 {
            seen.mark_missing(sample_account(), &servers, &seen.known_lists(sample_account(), &servers));
            let known = seen.known_lists(sample_account(), &servers);
            assert_eq!(known["slow"].missing_until, Some(Instant::now() + REST));
            assert_eq!(known["listed"].missing_until, None, "its list is there");
            tokio::time::advance(REST).await;
        }
    }

    #[test]
    fn equal_lists_shared_accounts_bounded() {
        let (seen, one) = (MachineTools::default(), mcp_server("registry", "1"));
        for account in 0..=ACCOUNTS_MAX as u128 {
            seen.store_lists(AccountId::from_random(account), &[&one], tools_reply("registry", "1", &["a"]));
        }
        let of = |account: u128| {
            let known = seen.known_lists(AccountId::from_random(account), &[&one]);
            known.into_values().next().map(|listed| listed.tools)
        };
        assert!(of(0).is_none(), "the oldest went");
        let (first, last) = (of(1).expect("a list"), of(ACCOUNTS_MAX as u128).expect("a list"));
        assert!(Arc::ptr_eq(&first, &last));
        assert_eq!(seen.lock_seen().accounts.len(), ACCOUNTS_MAX);
    }
}
