//! Web access: search engines, and the hosts that pages may be fetched from.

use domain::outgoing::OutgoingConfig;
use egress::{
    FetchConfig, KeyedEngine, Mcp, McpServerConfig, PRIVATE_HOSTS_MAX, PrivateHost, SERVERS_MAX,
    SearchClient, SearchConfig, SearchEngine, Secret, TOOLS_MAX, WebConfig,
};

use crate::form::{
    SettingForm, choice_form, quote_toml, single_line, text_form, text_list_form, text_schema,
};
use crate::source::SettingSources;

/// The value for no hosts.
const NONE: &str = "none";
/// The table that contains the servers' tables.
const MCP: &str = "mcp";

/// The engines to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Engines {
    Off,
    All,
    Only(SearchEngine),
}

const ENGINES: &[(&str, Engines)] = &[
    ("auto", Engines::All),
    ("searxng", Engines::Only(SearchEngine::Searxng)),
    ("brave", Engines::Only(SearchEngine::Brave)),
    ("tavily", Engines::Only(SearchEngine::Tavily)),
    ("off", Engines::Off),
];
const SWITCH: &[(&str, bool)] = &[("on", true), ("off", false)];

/// Reads the keys under `web` and the tables under `mcp`.
pub(crate) fn read_web(from: &mut SettingSources) -> WebConfig {
    WebConfig {
        search: read_search(from),
        fetch: read_fetch(from),
        mcp: read_mcp_servers(from),
        outgoing: OutgoingConfig::default(),
    }
}

fn read_search(from: &mut SettingSources) -> SearchConfig {
    const KEY: &str = "web.search";
    let show: fn(&Engines) -> String = |engines| {
        quote_toml(ENGINES.iter().find(|(_, known)| known == engines).map_or("auto", |(name, _)| name))
    };
    let engines = from.value_or_default(KEY, Engines::All, choice_form(ENGINES, show));
    let searxng = from.optional_value("web.searxng_url", text_form());
    let brave = read_keyed_engine(from, ["web.brave_api_key", "web.brave_api_key_file", "web.brave_url"]);
    let tavily = read_keyed_engine(from, ["web.tavily_api_key", "web.tavily_api_key_file", "web.tavily_url"]);
    let only = match engines {
        Engines::Off => return SearchConfig::default(),
        Engines::All => None,
        Engines::Only(engine) => Some(engine),
    };
    let config = SearchConfig { searxng, brave, tavily, only };
    // Validates the configuration without connecting.
    if let Err(error) = SearchClient::new(config.clone()) {
        from.record_problem(KEY, error);
    }
    config
}

fn read_keyed_engine(from: &mut SettingSources, [key, file, url]: [&'static str; 3]) -> Option<KeyedEngine> {
    let secret = from.secret_value(key, file).map(Secret::new);
    let base_url = from.optional_value(url, text_form());
    secret.map(|key| KeyedEngine { key, base_url })
}

fn read_fetch(from: &mut SettingSources) -> FetchConfig {
    let show: fn(&bool) -> String = |on| quote_toml(if *on { "on" } else { "off" });
    let default = FetchConfig::default();
    FetchConfig {
        enabled: from.value_or_default("web.fetch", default.enabled, choice_form(SWITCH, show)),
        private_hosts: from.value_or_default(
            "web.private_hosts",
            default.private_hosts,
            private_hosts_form(),
        ),
    }
}

/// Reads the servers that the file grants: one table each, named like the server.
fn read_mcp_servers(from: &mut SettingSources) -> Vec<McpServerConfig> {
    let mut servers = Vec::new();
    for name in from.table_names(MCP) {
        let table = format!("{MCP}.{name}");
        let key = |key: &str| format!("{table}.{key}");
        let Some(url) = from.optional_value(key("url"), text_form()) else {
            from.record_problem(&key("url"), "the URL of the server is required");
            continue;
        };
        let tools = from.optional_value(key("tools"), text_list_form(TOOLS_MAX));
        let read_only = from.optional_value(key("read_only"), text_list_form(TOOLS_MAX)).unwrap_or_default();
        let mut headers = Vec::new();
        for header in from.table_names(&key("headers")).union(&from.table_names(&key("header_files"))) {
            let (here, there) =
                (format!("{table}.headers.{header}"), format!("{table}.header_files.{header}"));
            headers.extend(from.secret_value(here, there).map(|value| (header.clone(), Secret::new(value))));
        }
        let server = McpServerConfig { name, url, headers, tools, read_only };
        if let Err(error) = Mcp::new(vec![server.clone()]) {
            from.record_problem(&key("url"), error);
        }
        servers.push(server);
    }
    if servers.len() > SERVERS_MAX {
        from.record_problem(MCP, format!("at most {SERVERS_MAX} servers are allowed"));
    }
    servers
}

/// Hosts separated by commas; or `none`.
fn private_hosts_form() -> SettingForm<Vec<PrivateHost>> {
    SettingForm {
        read: Box::new(|raw| match single_line(raw)? {
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
            if texts.is_empty() { quote_toml(NONE) } else { quote_toml(&texts.join(",")) }
        },
        schema: text_schema(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web_from_variables(pairs: &[(&str, &str)]) -> Result<WebConfig, Vec<String>> {
        let variables = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut sources = SettingSources::new(Vec::new(), variables);
        let config = read_web(&mut sources);
        sources.into_effective().map(|_| config)
    }

    #[test]
    fn read_search_enables_configured_engines() {
        let none = web_from_variables(&[]).expect("nothing is wrong with nothing");
        assert_eq!(none, WebConfig::default());
        let set = [
            ("SEARXNG_URL", "http://localhost:8888"),
            ("BRAVE_API_KEY", "brave-secret"),
            ("TAVILY_API_KEY", "tavily-secret"),
            ("CAUSERIE_WEB_TAVILY_URL", "http://tavily.example"),
        ];
        let all = web_from_variables(&set).expect("all can be read").search;
        assert_eq!(all.searxng.as_deref(), Some("http://localhost:8888"));
        assert_eq!(all.brave, Some(KeyedEngine { key: Secret::new("brave-secret"), base_url: None }));
        assert_eq!(
            all.tavily.as_ref().and_then(|one| one.base_url.as_deref()),
            Some("http://tavily.example")
        );
        assert!(all.only.is_none() && !format!("{all:?}").contains("secret\""));
        let with = |choice| [&set[..], &[("CAUSERIE_WEB_SEARCH", choice)]].concat();
        assert_eq!(
            web_from_variables(&with("brave")).expect("it holds").search.only,
            Some(SearchEngine::Brave)
        );
        assert_eq!(web_from_variables(&with("off")).expect("it holds").search, SearchConfig::default());
    }

    #[test]
    fn read_web_names_invalid_values() {
        for (name, value, expected) in [
            ("CAUSERIE_WEB_SEARCH", "google", "one of"),
            ("CAUSERIE_WEB_SEARCH", "tavily", "tavily is selected but not configured"),
            ("SEARXNG_URL", "localhost", "searxng: invalid URL"),
            ("CAUSERIE_WEB_FETCH", "yes", "one of"),
            ("CAUSERIE_WEB_PRIVATE_HOSTS", "http://wiki/", "is not a host"),
        ] {
            let problems = web_from_variables(&[(name, value)]).expect_err("refused").concat();
            assert!(problems.contains(expected), "{name}={value}: {problems}");
        }
    }

    /// Parses the content of the file.
    fn of_file(content: &str) -> Result<WebConfig, Vec<String>> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("causerie.toml");
        std::fs::write(&path, content).expect("a file");
        let mut sources = SettingSources::new(Vec::new(), []).with_file(&path);
        let config = read_web(&mut sources);
        let shown = |problem: String| problem.replace(path.to_str().expect("a path"), "FILE");
        let ended =
            sources.into_effective().map_err(|problems| problems.into_iter().map(shown).collect::<Vec<_>>());
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
            ("[mcp.registry]\nurl = \"mcp\"\n", "FILE:2: mcp.registry.url: mcp.registry: invalid URL"),
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
            ("[mcp.a]\nurl = \"http://x\"\n[mcp.a.headers]\nHost = \"word\"\n", "cannot be set"),
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
        let hosts = web_from_variables(&[("CAUSERIE_WEB_PRIVATE_HOSTS", "wiki.example, 10.0.0.5:8080")])
            .expect("it holds");
        let hosts: Vec<String> = hosts.fetch.private_hosts.iter().map(ToString::to_string).collect();
        assert_eq!(hosts, ["wiki.example", "10.0.0.5:8080"]);
        assert!(!web_from_variables(&[("CAUSERIE_WEB_FETCH", "off")]).expect("it holds").fetch.enabled);
    }
}
