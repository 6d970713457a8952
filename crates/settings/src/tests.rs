use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::source::variable_name;
use super::*;

const PAGE: &str = include_str!("../../../docs/configuration.md");
const MODELS_PAGE: &str = include_str!("../../../docs/models.md");
const WEB_PAGE: &str = include_str!("../../../docs/web.md");

fn load_settings(
    file: Option<&Path>,
    arguments: &[(&'static str, &'static str, &str)],
    variables: &[(&str, &str)],
) -> Result<Loaded, Vec<String>> {
    let arguments = arguments.iter().map(|(key, name, value)| (*key, *name, (*value).to_owned())).collect();
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let sources = SettingSources::new(arguments, variables);
    let sources = match file {
        Some(file) => sources.with_file(file),
        None => sources,
    };
    ServiceSettings::load(sources).map_err(|invalid| invalid.0)
}

/// Writes a file with this content into a new folder.
fn write_config_file(content: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("causerie.toml");
    std::fs::write(&path, content).expect("a file");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("one's own");
    (folder, path)
}

fn config_problems(content: &str) -> Vec<String> {
    let (_folder, path) = write_config_file(content);
    let problems = load_settings(Some(&path), &[], &[]).expect_err("refused");
    problems.iter().map(|problem| problem.replace(path.to_str().expect("a path"), "FILE")).collect()
}

#[test]
fn settings_page_lists_every_key() {
    let documented: BTreeMap<&str, &str> = PAGE
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            let (key, default, about) = (cells.next()?.strip_suffix('`')?, cells.next()?, cells.next()?);
            assert!(about.len() > 10, "{key} is explained");
            Some((key, default.trim_matches('`')))
        })
        .collect();
    let loaded = load_settings(None, &[], &[]).expect("the defaults hold");
    let held: BTreeMap<&str, &str> =
        loaded.effective.iter().map(|key| (&*key.key, key.value.as_deref().unwrap_or("–"))).collect();
    assert_eq!(documented, held);
}

#[test]
fn the_example_of_the_page_loads() {
    let example =
        PAGE.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let (folder, path) = write_config_file("");
    let at_hand = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(at_hand("openai.key"), "sk-example\n").expect("a file");
    let list = "[[jurisdictions]]\nid = \"HU\"\ncs = \"Maďarsko\"\nen = \"Hungary\"\nsk = \"Maďarsko\"\n";
    std::fs::write(at_hand("jurisdictions.toml"), list).expect("a file");
    // Its file names refer to this folder.
    let example = example.replace("/etc/causerie/", &at_hand(""));
    std::fs::write(&path, &example).expect("a file");
    let loaded = load_settings(Some(&path), &[], &[]).expect("it holds");
    assert_eq!(loaded.settings.jurisdictions[0].id, "HU");
    assert!(loaded.settings.vendors.openai.is_some_and(|openai| openai.key.is_some()));
    assert!(loaded.effective.iter().filter(|key| matches!(key.origin, SettingOrigin::File(..))).count() > 8);
}

#[test]
fn settings_web_page_examples_load() {
    let examples: Vec<&str> =
        WEB_PAGE.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 3, "search, hosts, MCP");
    let (folder, path) = write_config_file("");
    for name in ["brave.key", "registry.token"] {
        std::fs::write(folder.path().join(name), "a secret\n").expect("a file");
    }
    // A table occurs once in a file.
    let whole = format!("[web]\n{}", examples.concat().replace("[web]\n", ""));
    let whole = whole.replace("/etc/causerie/", &format!("{}/", folder.path().display()));
    std::fs::write(&path, &whole).expect("a file");
    let web = load_settings(Some(&path), &[], &[]).expect("they hold").settings.web;
    assert!(web.search.searxng.is_some() && web.search.brave.is_some());
    assert_eq!(web.fetch.private_hosts.len(), 2);
    assert_eq!(web.mcp[0].name, "registry");
    assert_eq!(web.mcp[0].headers.len(), 2);
    assert!(!web.mcp[0].read_only.is_empty() && web.mcp[0].tools.is_some());
}

#[test]
fn settings_load_prefers_arguments_first() {
    let (_folder, path) = write_config_file(
        "listen = \"127.0.0.1:3\"\nupload_max_bytes = \"1 MiB\"\n[openai]\nbase_url = \"http://file\"\n",
    );
    let argument = [("listen", "--listen", "127.0.0.1:1")];
    let variables = [
        ("CAUSERIE_LISTEN", "127.0.0.1:2"),
        ("OPENAI_BASE_URL", "http://alias"),
        ("CAUSERIE_UPLOAD_MAX_BYTES", " "),
    ];
    let load = |arguments: &[(&'static str, &'static str, &str)], variables: &[(&str, &str)]| {
        let loaded = load_settings(Some(&path), arguments, variables).expect("they hold");
        let origin =
            loaded.effective.iter().find(|key| key.key == "listen").map(|key| key.origin.to_string());
        (loaded.settings.listen.port(), origin.expect("its origin"), loaded.settings)
    };
    let (port, origin, settings) = load(&argument, &variables);
    assert_eq!((port, origin.as_str()), (1, "--listen"));
    assert_eq!(settings.upload_max_bytes, Some(1 << 20), "an empty variable is none");
    assert_eq!(settings.vendors.openai.and_then(|openai| openai.base_url).as_deref(), Some("http://alias"));
    let (port, origin, _) = load(&[], &variables);
    assert_eq!((port, origin.as_str()), (2, "CAUSERIE_LISTEN"));
    let ours = [("CAUSERIE_OPENAI_BASE_URL", "http://ours"), ("OPENAI_BASE_URL", "http://alias")];
    let (port, origin, settings) = load(&[], &ours);
    assert_eq!((port, origin), (3, format!("{}:1", path.display())));
    assert_eq!(settings.vendors.openai.and_then(|openai| openai.base_url).as_deref(), Some("http://ours"));
    let loaded = load_settings(None, &[], &[]).expect("the defaults hold");
    assert_eq!(loaded.settings.listen.port(), 8080);
}

#[test]
fn settings_load_reports_all_problems() {
    let content = "lisen = \"127.0.0.1:1\"\n\n[machine]\nmemory_byte = 5\nidle_timeout = 15\ndriver = \"vm\"\n\
                   [quota]\nfiles_max = -1\nbytes_max = [1]\n[prices]\nbase = 0.00001\n[extra]\n";
    let problems_found = config_problems(content);
    for wanted in [
        "FILE:1: unknown key lisen; did you mean listen?",
        "FILE:4: unknown key machine.memory_byte; did you mean machine.memory_bytes?",
        "FILE:5: machine.idle_timeout: expected a duration from 1s to 365d, such as \"90s\" or \"15m\", or \"never\"",
        "FILE:6: machine.driver: expected one of \"auto\", \"qemu\", \"uml\", \"sandbox\"",
        "FILE:8: quota.files_max: expected an integer from 1 to 1000000000",
        "FILE:9: quota.bytes_max: expected bytes from 1 MiB to 1024 TiB, such as 65536 or \"64 KiB\"",
        "FILE:11: prices.base: expected credits from 0 to 1000000 with at most three decimals",
        "FILE:12: unknown key extra",
    ] {
        assert!(problems_found.iter().any(|problem| problem == wanted), "{wanted}\n{problems_found:#?}");
    }
    assert_eq!(problems_found.len(), 8, "{problems_found:#?}");
    assert!(
        config_problems("listen = 8080")[0]
            .starts_with("FILE:1: listen: expected a text in quotes, not a number")
    );
    assert!(config_problems("a = 1\n= 2\n")[0].starts_with("FILE:2: "), "what is no TOML has a line as well");
    assert!(config_problems("listen = \"a\"\nlisten = \"b\"\n")[0].starts_with("FILE:2: "));
    for wrong in ["causerie=loudly", "loud", "INFO,loud", "3"] {
        let problems_found = &config_problems(&format!("log.level = {wrong:?}"))[0];
        assert!(
            problems_found.starts_with("FILE:1: log.level: expected off, error, warn, info, debug or trace"),
            "{problems_found}"
        );
    }
    for right in ["info", "WARN", "off", "info,requests=warn", "info,causerie[span]=debug"] {
        let (_folder, path) = write_config_file(&format!("log.level = {right:?}"));
        assert!(load_settings(Some(&path), &[], &[]).is_ok(), "{right}");
    }
    assert!(config_problems("openai.base_url = \"ftp://x\"")[0].starts_with("FILE:1: openai.base_url: "));
    let missing = load_settings(Some(Path::new("/nowhere/causerie.toml")), &[], &[]).expect_err("refused");
    assert!(missing[0].starts_with("/nowhere/causerie.toml: "), "{missing:?}");
    let wrong = load_settings(None, &[], &[("CAUSERIE_MACHINE_CPU_PERCENT", "much")]).expect_err("refused");
    assert!(wrong[0].starts_with("CAUSERIE_MACHINE_CPU_PERCENT: machine.cpu_percent: "), "{wrong:?}");
}

#[test]
fn secret_value_from_file_stays_hidden() {
    let (folder, path) = write_config_file("");
    let key = folder.path().join("key");
    let write = |content: &str, mode: u32| {
        std::fs::write(&key, content).expect("a file");
        std::fs::set_permissions(&key, PermissionsExt::from_mode(mode)).expect("one's own");
    };
    let by_file = format!("[openai]\napi_key_file = \"{}\"\n", key.display());
    std::fs::write(&path, &by_file).expect("a file");
    write("sk-very-secret\n", 0o600);
    let outcome = load_settings(Some(&path), &[], &[]).expect("it holds");
    assert!(
        outcome
            .settings
            .vendors
            .openai
            .as_ref()
            .is_some_and(|openai| openai.key == Some(models::Secret::new("sk-very-secret")))
    );
    assert!(outcome.warnings.is_empty(), "{:?}", outcome.warnings);
    assert!(!format!("{outcome:?}").contains("very-secret"));
    write("sk-very-secret\n", 0o644);
    let outcome = load_settings(Some(&path), &[], &[]).expect("it holds");
    assert!(
        outcome.warnings.len() == 1 && outcome.warnings[0].contains("every user"),
        "{:?}",
        outcome.warnings
    );
    for wrong in ["", "\n", "two\nlines"] {
        write(wrong, 0o600);
        let outcome = load_settings(Some(&path), &[], &[]).expect_err("refused");
        assert!(
            outcome.len() == 1 && outcome[0].contains("openai.api_key_file") && !outcome[0].contains("two"),
            "{outcome:?}"
        );
    }
    write("sk-very-secret\n", 0o600);
    let both = load_settings(Some(&path), &[], &[("OPENAI_API_KEY", "sk-very-secret")]).expect_err("refused");
    assert!(both[0].contains("cannot be combined") && !both[0].contains("very-secret"), "{both:?}");
    let by_variable =
        load_settings(None, &[], &[("CAUSERIE_OPENAI_API_KEY", "sk-very-secret")]).expect("it holds");
    assert!(by_variable.settings.vendors.openai.is_some());
    let shown = by_variable.effective.iter().find(|key| key.key == "openai.api_key").expect("the key");
    assert_eq!(shown.value.as_deref(), Some("\"(secret)\""));
    assert!(!format!("{by_variable:?}").contains("very-secret"));
    let odd = load_settings(None, &[], &[("CAUSERIE_OPENAI_API_KEY", "sk-very-secret\nX: y")])
        .expect_err("refused");
    assert!(!odd.concat().contains("very-secret"), "{odd:?}");
}

#[test]
fn variable_name_is_unique_per_key() {
    let loaded = load_settings(
        None,
        &[],
        &[(concat!("CAUSERIE_", "LISTN"), "127.0.0.1:1"), ("CAUSERIE_URL", "http://x")],
    )
    .expect("they hold");
    assert_eq!(
        loaded.warnings,
        [concat!("CAUSERIE_", "LISTN: unknown variable; did you mean CAUSERIE_LISTEN?")]
    );
    let mut variables: Vec<String> = loaded.effective.iter().map(|key| variable_name(&key.key)).collect();
    variables.sort();
    variables.dedup();
    assert_eq!(variables.len(), loaded.effective.len());
    assert!(!variables.iter().any(|name| source::OTHERS.contains(&name.as_str())));
}

#[test]
fn vendor_settings_accept_vendor_variables() {
    let variables = [
        ("ANTHROPIC_API_KEY", "sk-ant"),
        ("ANTHROPIC_BASE_URL", "http://127.0.0.1:1"),
        ("GOOGLE_API_KEY", "second"),
        ("GEMINI_API_KEY", "first"),
        ("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:2"),
    ];
    let vendors = load_settings(None, &[], &variables).expect("they hold").settings.vendors;
    let anthropic = vendors.anthropic.expect("it is configured");
    assert_eq!(anthropic.key, Some(models::Secret::new("sk-ant")));
    assert_eq!(anthropic.base_url.as_deref(), Some("http://127.0.0.1:1"));
    let google = vendors.google.expect("it is configured");
    assert_eq!(google.key, Some(models::Secret::new("first")));
    assert_eq!(google.base_url.as_deref(), Some("http://127.0.0.1:2"));
    assert!(vendors.openai.is_none());
    let loaded_by = |name: &str, value: &str| {
        let vendors = load_settings(None, &[], &[(name, value)]).expect("it holds").settings.vendors;
        [vendors.anthropic, vendors.openai, vendors.google]
    };
    for (at, key, base_url) in [
        (0, "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        (1, "OPENAI_API_KEY", "OPENAI_BASE_URL"),
        (2, "GEMINI_API_KEY", "GEMINI_BASE_URL"),
        (2, "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
    ] {
        let keyed = loaded_by(key, "sk-1");
        assert_eq!(keyed.iter().flatten().count(), 1, "{key}");
        assert!(keyed[at].as_ref().is_some_and(|one| one.key == Some(models::Secret::new("sk-1"))), "{key}");
        let placed = loaded_by(base_url, "http://127.0.0.1:1");
        assert_eq!(placed.iter().flatten().count(), 1, "{base_url}");
        let base = placed[at].as_ref().and_then(|one| one.base_url.as_deref());
        assert_eq!(base, Some("http://127.0.0.1:1"), "{base_url}");
    }
    let refused = load_settings(None, &[], &[("GEMINI_BASE_URL", "ftp://x")]).expect_err("refused");
    assert!(refused[0].starts_with("GEMINI_BASE_URL: google.base_url: "), "{refused:?}");
}

#[test]
fn settings_read_options_and_openai_format() {
    let (folder, path) = write_config_file("openai.format = \"chat-completions\"\nopenai.api_key = \"sk\"\n");
    let format = load_settings(Some(&path), &[], &[])
        .expect("it holds")
        .settings
        .vendors
        .openai
        .expect("openai")
        .format;
    assert_eq!(format, Some(models::WireFormat::ChatCompletions));
    assert!(
        config_problems("openai.format = \"xml\"")[0]
            .contains("one of \"auto\", \"chat-completions\", \"responses\"")
    );
    let options = folder.path().join("options.json");
    let by_file = |content: &str| {
        std::fs::write(&options, content).expect("a file");
        std::fs::write(&path, format!("models.options_file = \"{}\"\n", options.display())).expect("a file");
        load_settings(Some(&path), &[], &[])
    };
    let read = by_file(r#"{"*": {"a": 1}}"#).expect("it holds").settings.vendors.options;
    assert_eq!(Some(read), models::RequestOptions::parse(r#"{"*": {"a": 1}}"#).ok());
    let refused = by_file("{\n[]}").expect_err("refused");
    assert!(refused[0].contains("line 2"), "{refused:?}");
}

#[test]
fn the_models_of_the_page_load() {
    let example = MODELS_PAGE.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let (_folder, path) = write_config_file(example.expect("an example"));
    let variables = [("ANTHROPIC_API_KEY", "sk"), ("OPENAI_API_KEY", "sk")];
    let outcome = load_settings(Some(&path), &[], &variables).expect("they hold");
    assert_eq!(outcome.warnings, [""; 0]);
    let vendors = &outcome.settings.vendors;
    assert!(vendors.only_configured);
    assert_eq!(vendors.default_model.as_deref(), Some("thorough"));
    let [thorough, quick] = &vendors.models[..] else { panic!("two models: {:?}", vendors.models) };
    assert_eq!(thorough.label.as_ref().map(|label| label.sk.as_str()), Some("Dôkladný"));
    assert_eq!((thorough.base_millis, thorough.output_millis), (Some(2000), Some(1500)));
    assert_eq!(thorough.options["service_tier"], "standard_only");
    assert_eq!(quick.options["text"]["verbosity"], "low");
    assert_eq!((quick.reasoning_effort, quick.vendor_name()), (Some(false), "gpt-5-mini"));
    let catalog = models::Catalog::new(vendors.clone(), control::ServiceEnvironment::system().clock());
    let entries = catalog.expect("a catalog").model_entries();
    let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, ["thorough", "quick"]);
    // Printed settings are read back unchanged.
    let shown: Vec<String> = outcome
        .effective
        .iter()
        .filter(|key| key.key.starts_with("model."))
        .filter_map(|key| Some(format!("{} = {}", key.key, key.value.as_ref()?)))
        .collect();
    let (_folder, again) = write_config_file(&shown.join("\n"));
    let again = load_settings(Some(&again), &[], &variables).expect("it holds").settings.vendors;
    assert_eq!(again.models, vendors.models);
    let absent = load_settings(Some(&path), &[], &variables[..1]).expect("it holds");
    assert!(absent.warnings[0].contains("quick"), "{:?}", absent.warnings);
}

#[test]
fn invalid_model_reported_with_line() {
    let model = "[[model]]\nid = \"a\"\nvendor = \"openai\"\n";
    for (wrong, expected) in [
        ("labels = \"x\"", "FILE:4: unknown key model.1.labels; did you mean model.1.label?"),
        ("label = { cs = \"x\" }", "expected one text, or one each for cs, en and sk"),
        ("label = { de = \"x\" }", "FILE:4: unknown key model.1.label.de"),
        ("hidden = \"yes\"", "FILE:4: model.1.hidden: expected true or false, not a text"),
        ("options = 5", "FILE:4: model.1.options: expected a table, not a number"),
        ("options = \"[]\"", "expected a table or a JSON object"),
        ("options = { at = 2026-01-01 }", "model.1.options: expected a table, not a table with dates"),
        ("context_tokens = 5", "FILE:4: model.1.context_tokens: expected an integer from 1024 to 100000000"),
        ("default = true\nhidden = true", "the default model cannot be hidden"),
        ("[[model]]\nid = \"a\"\nvendor = \"openai\"", "FILE:5: model.2.id: duplicate id a"),
        ("[[model]]\nvendor = \"openai\"", "model.2.id: required for every model"),
        ("[[model]]\nid = \"b\"\nvendor = \"oai\"", "expected one of \"anthropic\", \"openai\", \"google\""),
        ("default = true\n[models]\ndefault = \"b\"", "mark the [[model]] itself as the default"),
    ] {
        let problems = config_problems(&format!("{model}{wrong}\n")).concat();
        assert!(problems.contains(expected), "{wrong}: {problems}");
    }
    let twice = format!("{model}default = true\n{}default = true\n", model.replace("\"a\"", "\"b\""));
    assert!(config_problems(&twice)[0].contains("only one model can be the default"));
}
