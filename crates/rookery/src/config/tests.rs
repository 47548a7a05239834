//! Precedence, origins and errors, as a person meets them.

use std::fs;
use std::time::Duration;

use super::*;
use rookery_engine::settings::SettingValue;

/// Loads with a file (if any), environment and flags given as text.
fn load(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<ProjectSettings, String> {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("my-project");
    fs::create_dir(&root).unwrap();
    let project = Project::at(&root).unwrap();
    if !file.is_empty() {
        fs::write(project.config_file(), file).unwrap();
    }
    let environment = environment.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
    let mut given = Flags::default();
    flags.iter().for_each(|(name, text)| given.set(name, *text));
    ProjectSettings::load_from(&project, &given, environment).map_err(|error| {
        let folder = format!("{}/", project.root().display());
        format!("{error}\n{}", error.hint()).replace(&folder, "")
    })
}

#[test]
fn defaults_hold_where_nothing_is_set() {
    let settings = load("", &[], &[]).unwrap();
    assert_eq!(settings.project, "my-project");
    assert_eq!((settings.host.as_str(), settings.port), ("127.0.0.1", 4700));
    let store = settings.store.secret();
    assert!(store.starts_with("sqlite:/") && store.ends_with("my-project/.rookery/rookery.db"), "{store}");
    assert_eq!(settings.call_only_offline_after, Duration::from_secs(1_800));
    assert_eq!(settings.queue_bytes, Bytes(64 << 20));
    assert_eq!((settings.watch, settings.require_token), (true, false));
    assert!(settings.allowed_hosts.is_empty());
    assert!(settings.entries().iter().all(|entry| entry.origin == Origin::Default));
    assert_eq!(settings.entries().len(), TABLE.len());
}

#[test]
fn flag_beats_environment_beats_file_beats_default() {
    let file = "# ours\nport = 1\n\nwatch = false\nallowed_hosts = [\"a\", \"b\"]\nmax_body_bytes = 10\n";
    let settings = load(file, &[], &[]).unwrap();
    assert_eq!((settings.port, settings.origin("port").to_string().ends_with("rookery.toml:2")), (1, true));
    assert_eq!((settings.watch, settings.origin("watch").to_string().ends_with("rookery.toml:4")), (false, true));
    assert_eq!(settings.allowed_hosts, ["a", "b"]);
    assert_eq!(settings.max_body_bytes, Bytes(10));

    let settings = load(file, &[("ROOKERY_PORT", "2")], &[]).unwrap();
    assert_eq!((settings.port, settings.origin("port")), (2, &Origin::Environment("ROOKERY_PORT")));

    let settings = load(file, &[("ROOKERY_PORT", "2")], &[("port", "3")]).unwrap();
    assert_eq!((settings.port, settings.origin("port")), (3, &Origin::Flag));
    let settings = load(file, &[], &[("port", "3"), ("port", "4")]).unwrap();
    assert_eq!(settings.port, 4, "the last flag wins");
}

#[test]
fn errors_say_where_what_and_how_to_mend_it() {
    for (file, environment, flags, expected) in [
        (
            "host = \"127.0.0.1\"\nprot = 1\n",
            ("", ""),
            ("port", "1"),
            "rookery.toml:2: there is no setting `prot`\ndid you mean `port`? `rookery config` lists all settings",
        ),
        (
            "[daemon]\nport = 1\n",
            ("", ""),
            ("port", "1"),
            "rookery.toml:1: there is no setting `daemon`\n`rookery config` lists all settings",
        ),
        (
            "port = \"many\"\n",
            ("", ""),
            ("host", "::1"),
            "rookery.toml:1: `port` must be a port from 0 to 65535, not \"many\"\nchange `port`, or remove the line for the default",
        ),
        (
            "\nport = = 1",
            ("", ""),
            ("port", "1"),
            "rookery.toml:2: extra `=`, expected nothing\ncorrect rookery.toml as TOML, for example: port = 4700",
        ),
        (
            "",
            ("ROOKERY_OFFLINE_AFTER", "60"),
            ("port", "1"),
            "ROOKERY_OFFLINE_AFTER: `offline_after` must be a time such as 500ms, 2s, 1m or 12h, not `60`\nset ROOKERY_OFFLINE_AFTER to another value, or unset it",
        ),
        (
            "",
            ("", ""),
            ("ofline_after", "1s"),
            "there is no setting `ofline_after`\ndid you mean `offline_after`? `rookery config` lists all settings",
        ),
        (
            "",
            ("ROOKERY_HOST", "0.0.0.0"),
            ("port", "1"),
            "0.0.0.0 can be reached from other machines, where anybody could act as any agent\nadd --require-token, or listen on 127.0.0.1",
        ),
        (
            "port = 1\nprocess_after = \"1s\"",
            ("", ""),
            ("port", "1"),
            "rookery.toml:2: `process_after` is now called `process_offline_after`\nwrite `process_offline_after` instead of `process_after`",
        ),
        (
            "",
            ("ROOKERY_DELIVERY_PAUSE", "1s"),
            ("port", "1"),
            "ROOKERY_DELIVERY_PAUSE: `delivery_pause` is now called `delivery_backoff`\nunset ROOKERY_DELIVERY_PAUSE and set ROOKERY_DELIVERY_BACKOFF instead",
        ),
        (
            "",
            ("", ""),
            ("silent_after", "1s"),
            "flag: `silent_after` is now called `call_only_offline_after`\nwrite `call_only_offline_after` instead of `silent_after`",
        ),
        (
            "tls_cert = \"c.pem\"",
            ("", ""),
            ("port", "1"),
            "TLS needs a certificate and its key\ngive both tls_cert and tls_key, or neither",
        ),
    ] {
        assert_eq!(load(file, &[environment], &[flags]).unwrap_err(), expected);
    }
}

#[test]
fn other_machines_may_reach_it_with_tokens() {
    let settings = load("require_token = true", &[], &[("host", "0.0.0.0")]).unwrap();
    assert!(!settings.is_loopback());
    for host in ["localhost", "::1", "[::1]", "127.3.2.1"] {
        assert!(load("", &[], &[("host", host)]).unwrap().is_loopback(), "{host}");
    }
}

#[test]
fn outbound_allow_takes_hosts_with_and_without_ports() {
    let settings = load("[outbound]\nallow = [\"ken:8080\", \"10.0.0.7\"]\n", &[], &[]).unwrap();
    assert_eq!(settings.outbound_allow.text(), "ken:8080,10.0.0.7");
    assert!(matches!(*settings.origin("outbound_allow"), Origin::File { line: 2, .. }));
    for (text, wanted) in [
        ("[outbound]\nallow = [\"http://ken\"]", "rookery.toml:2: `outbound_allow` must be a list of hosts"),
        ("[outbound]\nhosts = []", "rookery.toml:2: there is no setting `outbound_hosts`"),
        ("delivery_hosts = []", "rookery.toml:1: there is no setting `delivery_hosts`"),
    ] {
        let error = load(text, &[], &[]).unwrap_err().to_string();
        assert!(error.starts_with(wanted), "{error}");
    }
}

#[test]
fn the_context_is_a_table_of_the_file_or_false() {
    let settings = load("[context]\nprovider = \"memory\"\ndocuments = [\"goals.md\"]\n", &[], &[]).unwrap();
    assert_eq!(settings.context_provider.text(), "memory");
    assert!(matches!(*settings.origin("context_documents"), Origin::File { line: 3, .. }));
    assert_eq!(load("context = false", &[], &[]).unwrap().context_provider.text(), "off");
    for (file, expected) in [
        ("[context]\nprovider = \"cloud\"", "rookery.toml:2: `context_provider` must be file, memory or off"),
        ("[context]\n\ncolour = 1", "rookery.toml:3: there is no setting `context_colour`"),
        ("context = true", "rookery.toml:1: there is no setting `context`"),
    ] {
        assert!(load(file, &[], &[]).unwrap_err().starts_with(expected), "{file}");
    }
}

#[test]
fn every_default_is_right_and_every_variable_is_its_own() {
    let names: std::collections::BTreeSet<_> = TABLE.iter().map(|definition| definition.env).collect();
    assert_eq!(names.len(), TABLE.len());
    assert!(names.iter().all(|name| name.starts_with("ROOKERY_")));
    load("", &[], &[]).unwrap();
}

#[test]
fn flags_become_variables_for_another_process() {
    let mut flags = Flags::default();
    flags.set("port", "0");
    flags.set("log_level", "debug");
    assert_eq!(flags.environment(), [("ROOKERY_PORT", "0"), ("ROOKERY_LOG", "debug")]);
}

#[test]
fn the_schema_describes_every_setting_as_the_file_has_it() {
    let schema = json_schema();
    let mut properties = schema["properties"].as_object().unwrap().clone();
    assert!(properties.remove("adapters").is_some(), "which is no setting");
    // What the file has in a table is a setting with that table's name before its own.
    let table = properties.remove("context").unwrap()["anyOf"][1]["properties"].as_object().unwrap().clone();
    properties.extend(table.into_iter().map(|(name, property)| (format!("context_{name}"), property)));
    let table = properties.remove("outbound").unwrap()["properties"].as_object().unwrap().clone();
    properties.extend(table.into_iter().map(|(name, property)| (format!("outbound_{name}"), property)));
    assert_eq!(properties.len(), TABLE.len());
    for (name, property) in &properties {
        assert!(property["description"].as_str().unwrap().contains("Environment: ROOKERY_"), "{name}");
        // Each default, written into the file as the schema has it, is what holds without the line.
        if let Some(default) = property.get("default") {
            let settings = load(&format!("{name} = {default}\n"), &[], &[]).unwrap();
            let written = settings.entries().into_iter().find(|entry| entry.name == name).unwrap();
            let unwritten = load("", &[], &[]).unwrap().entries().into_iter().find(|entry| entry.name == name).unwrap();
            assert_eq!(written.json, unwritten.json, "{name}");
        }
    }
}

#[test]
fn hooks_are_tables_of_the_file_and_what_is_wrong_with_one_has_its_line() {
    let settings = load("port = 1\n\n[adapters.http.ci]\nsecret_env = \"CI\"\n", &[], &[]).unwrap();
    assert_eq!(settings.hooks.incoming.iter().map(HookSettings::name).collect::<Vec<_>>(), ["ci"]);
    assert_eq!(load("", &[], &[]).unwrap().hooks, Hooks::default());
    let told = load("port = 1\n\n[adapters.http.ci]\nsecret = \"x\"\n", &[], &[]).unwrap_err();
    assert!(told.starts_with("rookery.toml:3: `adapters.http.ci`: unknown field `secret`"), "{told}");
    assert!(told.ends_with("`rookery schema config` describes what a hook can say"), "{told}");
    assert!(load("adapters = 1\n", &[], &[]).unwrap_err().starts_with("rookery.toml:1: `adapters`"));
}
