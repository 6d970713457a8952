//! Web access: search engines, and the hosts that pages may be fetched from.

use domain::outgoing::OutgoingConfig;
use egress::{
    Engine, FetchConfig, KeyedEngine, Mcp, McpServerConfig, PRIVATE_HOSTS_MAX, PrivateHost, SERVERS_MAX,
    Search, SearchConfig, Secret, TOOLS_MAX, WebConfig,
};

use super::form::{Form, choice, line, quoted, text, texts};
use super::source::Sources;

/// The value for no hosts.
const NONE: &str = "none";
/// The table that contains the servers' tables.
const MCP: &str = "mcp";

/// The engines to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Engines {
    Off,
    All,
    Only(Engine),
}

const ENGINES: &[(&str, Engines)] = &[
    ("auto", Engines::All),
    ("searxng", Engines::Only(Engine::Searxng)),
    ("brave", Engines::Only(Engine::Brave)),
    ("tavily", Engines::Only(Engine::Tavily)),
    ("off", Engines::Off),
];
const SWITCH: &[(&str, bool)] = &[("on", true), ("off", false)];

/// Reads the keys under `web` and the tables under `mcp`.
pub(super) fn read(from: &mut Sources) -> WebConfig {
    WebConfig {
        search: search(from),
        fetch: fetch(from),
        mcp: mcp(from),
        outgoing: OutgoingConfig::default(),
    }
}

fn search(from: &mut Sources) -> SearchConfig {
    const KEY: &str = "web.search";
    let show: fn(&Engines) -> String =
        |engines| quoted(ENGINES.iter().find(|(_, known)| known == engines).map_or("auto", |(name, _)| name));
    let engines = from.key(KEY, Engines::All, choice(ENGINES, show));
    let searxng = from.optional("web.searxng_url", text());
    let brave = keyed(from, ["web.brave_api_key", "web.brave_api_key_file", "web.brave_url"]);
    let tavily = keyed(from, ["web.tavily_api_key", "web.tavily_api_key_file", "web.tavily_url"]);
    let only = match engines {
        Engines::Off => return SearchConfig::default(),
        Engines::All => None,
        Engines::Only(engine) => Some(engine),
    };
    let config = SearchConfig { searxng, brave, tavily, only };
    // Validates the configuration without connecting.
    if let Err(error) = Search::new(config.clone()) {
        from.refuse(KEY, error);
    }
    config
}

fn keyed(from: &mut Sources, [key, file, url]: [&'static str; 3]) -> Option<KeyedEngine> {
    let secret = from.secret(key, file).map(Secret::new);
    let base_url = from.optional(url, text());
    secret.map(|key| KeyedEngine { key, base_url })
}

fn fetch(from: &mut Sources) -> FetchConfig {
    let show: fn(&bool) -> String = |on| quoted(if *on { "on" } else { "off" });
    let default = FetchConfig::default();
    FetchConfig {
        enabled: from.key("web.fetch", default.enabled, choice(SWITCH, show)),
        private_hosts: from.key("web.private_hosts", default.private_hosts, hosts()),
    }
}

/// Reads the servers that the file grants: one table each, named like the server.
fn mcp(from: &mut Sources) -> Vec<McpServerConfig> {
    let mut servers = Vec::new();
    for name in from.names(MCP) {
        let table = format!("{MCP}.{name}");
        let key = |key: &str| format!("{table}.{key}");
        let Some(url) = from.optional(key("url"), text()) else {
            from.refuse(&key("url"), "the URL of the server is required");
            continue;
        };
        let tools = from.optional(key("tools"), texts(TOOLS_MAX));
        let read_only = from.optional(key("read_only"), texts(TOOLS_MAX)).unwrap_or_default();
        let mut headers = Vec::new();
        for header in from.names(&key("headers")).union(&from.names(&key("header_files"))) {
            let (here, there) =
                (format!("{table}.headers.{header}"), format!("{table}.header_files.{header}"));
            headers.extend(from.secret(here, there).map(|value| (header.clone(), Secret::new(value))));
        }
        let server = McpServerConfig { name, url, headers, tools, read_only };
        if let Err(error) = Mcp::new(vec![server.clone()]) {
            from.refuse(&key("url"), error);
        }
        servers.push(server);
    }
    if servers.len() > SERVERS_MAX {
        from.refuse(MCP, format!("at most {SERVERS_MAX} servers are allowed"));
    }
    servers
}

/// Hosts separated by commas; or `none`.
fn hosts() -> Form<Vec<PrivateHost>> {
    Form {
        read: Box::new(|raw| match line(raw)? {
            NONE => Ok(Vec::new()),
            text => {
                let hosts = text.split(',').map(|one| one.parse().map_err(|error| format!("{error}")));
                let hosts: Vec<PrivateHost> = hosts.collect::<Result<_, String>>()?;
                match hosts.len() {
                    ..=PRIVATE_HOSTS_MAX => Ok(hosts),
                    _ => Err(format!("at most {PRIVATE_HOSTS_MAX} hosts are allowed")),
                }
            }
        }),
        show: |hosts| {
            let texts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
            if texts.is_empty() { quoted(NONE) } else { quoted(&texts.join(",")) }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Result<WebConfig, Vec<String>> {
        let variables = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut sources = Sources::new(Vec::new(), variables);
        let config = read(&mut sources);
        sources.finish().map(|_| config)
    }

    #[test]
    fn engines_are_those_whose_variables_are_set() {
        let none = of(&[]).expect("nothing is wrong with nothing");
        assert_eq!(none, WebConfig::default());
        let set = [
            ("SEARXNG_URL", "http://localhost:8888"),
            ("BRAVE_API_KEY", "brave-secret"),
            ("TAVILY_API_KEY", "tavily-secret"),
            ("CAUSERIE_WEB_TAVILY_URL", "http://tavily.example"),
        ];
        let all = of(&set).expect("all can be read").search;
        assert_eq!(all.searxng.as_deref(), Some("http://localhost:8888"));
        assert_eq!(all.brave, Some(KeyedEngine { key: Secret::new("brave-secret"), base_url: None }));
        assert_eq!(
            all.tavily.as_ref().and_then(|one| one.base_url.as_deref()),
            Some("http://tavily.example")
        );
        assert!(all.only.is_none() && !format!("{all:?}").contains("secret\""));
        let with = |choice| [&set[..], &[("CAUSERIE_WEB_SEARCH", choice)]].concat();
        assert_eq!(of(&with("brave")).expect("it holds").search.only, Some(Engine::Brave));
        assert_eq!(of(&with("off")).expect("it holds").search, SearchConfig::default());
    }

    #[test]
    fn what_can_not_be_used_is_named() {
        for (name, value, expected) in [
            ("CAUSERIE_WEB_SEARCH", "google", "one of"),
            ("CAUSERIE_WEB_SEARCH", "tavily", "tavily is selected but not configured"),
            ("SEARXNG_URL", "localhost", "searxng: the address"),
            ("CAUSERIE_WEB_FETCH", "yes", "one of"),
            ("CAUSERIE_WEB_PRIVATE_HOSTS", "http://wiki/", "is not a host"),
        ] {
            let problems = of(&[(name, value)]).expect_err("refused").concat();
            assert!(problems.contains(expected), "{name}={value}: {problems}");
        }
    }

    /// Parses the content of the file.
    fn of_file(content: &str) -> Result<WebConfig, Vec<String>> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("causerie.toml");
        std::fs::write(&path, content).expect("a file");
        let mut sources = Sources::new(Vec::new(), []).with_file(&path);
        let config = read(&mut sources);
        let shown = |problem: String| problem.replace(path.to_str().expect("a path"), "FILE");
        let ended = sources.finish().map_err(|problems| problems.into_iter().map(shown).collect::<Vec<_>>());
        let (effective, _) = ended?;
        assert!(effective.iter().all(|key| !format!("{key:?}").contains("word")), "no secret is shown");
        Ok(config)
    }

    #[test]
    fn each_mcp_server_has_a_table() {
        let config = of_file(
            "[mcp.registry]\nurl = \"https://mcp.example.org/mcp\"\ntools = [\"find\", \"note.add\"]\n\
             read_only = [\"find\"]\n[mcp.registry.headers]\nX-Key = \"word\"\n[mcp.wiki]\nurl = \"http://wiki:8000\"\n",
        );
        let servers = config.expect("it holds").mcp;
        assert_eq!(servers[0].tools.as_deref(), Some(&["find".to_owned(), "note.add".to_owned()][..]));
        assert_eq!(servers[0].read_only, ["find"]);
        assert_eq!(servers[0].headers, [("X-Key".to_owned(), Secret::new("word"))]);
        assert_eq!((servers[1].name.as_str(), &servers[1].tools), ("wiki", &None));
        for (wrong, expected) in [
            ("[mcp.registry]\ntools = []\n", "mcp.registry.url: the URL of the server is required"),
            ("[mcp.registry]\nurl = \"mcp\"\n", "FILE:2: mcp.registry.url: mcp.registry: the address"),
            ("[mcp.A_b]\nurl = \"http://x\"\n", "the name must be unique"),
            (
                "[mcp.a]\nurl = \"http://x\"\ntool = []\n",
                "FILE:3: unknown key mcp.a.tool; did you mean mcp.a.tools?",
            ),
            (
                "[mcp.a]\nurl = \"http://x\"\ntools = \"find\"\n",
                "FILE:3: mcp.a.tools: expected a list of texts",
            ),
            ("[mcp.a]\nurl = \"http://x\"\ntools = [1]\n", "expected a list of texts, not a list"),
            (
                "[mcp.a]\nurl = \"http://x\"\n[mcp.a.headers]\nHost = \"word\"\n",
                "not a header that can be set",
            ),
            (
                "[mcp.a]\nurl = \"http://x\"\n[mcp.a.header_files]\nX-Key = \"/nowhere\"\n",
                "mcp.a.header_files.X-Key: /nowhere",
            ),
        ] {
            let problems = of_file(wrong).expect_err("refused").concat();
            assert!(problems.contains(expected), "{wrong}: {problems}");
        }
    }

    #[test]
    fn hosts_are_listed_with_commas() {
        let hosts = of(&[("CAUSERIE_WEB_PRIVATE_HOSTS", "wiki.example, 10.0.0.5:8080")]).expect("it holds");
        let hosts: Vec<String> = hosts.fetch.private_hosts.iter().map(ToString::to_string).collect();
        assert_eq!(hosts, ["wiki.example", "10.0.0.5:8080"]);
        assert!(!of(&[("CAUSERIE_WEB_FETCH", "off")]).expect("it holds").fetch.enabled);
    }
}
