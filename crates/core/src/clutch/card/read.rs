//! Reading a card from JSON: everything that is wrong with it is told at once, with a pointer to each field.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::clutch::form::{Fields, Read};
use crate::clutch::place::Place;
use crate::clutch::signature::is_public_key;
use crate::clutch::{Faults, json};
use crate::kernel::id::AgentId;
use crate::kernel::parse::{FaultCode, Flaw, quoted};
use crate::kernel::{limit, parse};
use crate::model::addressee;
use crate::model::addressee::Address;
use crate::model::capabilities::{
    Capability, Card, CostHint, Display, Endpoint, Endpoints, Limits, Rest, Security, SigningKey, VERSION,
};
use crate::model::policy::TrustLevel;
use crate::model::version::CapabilityVersion;

impl Card {
    /// A card as it was sent.
    pub fn parse(bytes: &[u8]) -> Result<Card, Faults> {
        within(bytes.len())?;
        let (value, faults) = json::read(bytes, &Place::Root)?;
        if faults.is_empty() { Card::read(&value) } else { Err(faults) }
    }

    pub fn read(value: &Value) -> Result<Card, Faults> {
        within(value.to_string().len())?;
        let object = parse::object(value).map_err(|flaw| Faults::of(flaw.code, &Place::Root, flaw.message))?;
        let mut faults = Faults::default();
        match card(&mut Fields::new(object, &Place::Root, &mut faults)) {
            Some(card) if faults.is_empty() => Ok(Card { rest: rest(object, &CARD), ..card }),
            _ => Err(faults),
        }
    }
}

fn within(bytes: usize) -> Result<(), Faults> {
    if bytes <= limit::CARD_BYTES {
        return Ok(());
    }
    let message = format!("the card is {bytes} bytes; at most {} are taken", limit::CARD_BYTES);
    Err(Faults::of(FaultCode::TooLarge, &Place::Root, message))
}

/// The fields that are known, by the object that has them; whatever else is there is kept.
const CARD: [&str; 7] = ["v", "agent_id", "display", "endpoints", "capabilities", "limits", "security"];

const DISPLAY: [&str; 2] = ["name", "desc"];

const ENDPOINTS: [&str; 2] = ["a2a", "clutch"];

const ENDPOINT: [&str; 1] = ["url"];

const CAPABILITY: [&str; 7] = ["id", "version", "tags", "tools", "trust_level", "cost_hint", "servers"];

const LIMITS: [&str; 2] = ["max_concurrency", "max_runtime_sec"];

const SECURITY: [&str; 4] = ["sandbox", "network", "tool_allowlist", "keys"];

const KEY: [&str; 2] = ["kid", "public_key"];

fn rest(object: &Map<String, Value>, known: &[&str]) -> Rest {
    let unknown = object.iter().filter(|(name, _)| !known.contains(&name.as_str()));
    unknown.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn card(fields: &mut Fields<'_>) -> Read<Card> {
    let v = fields.required("v", "'clutch/0.1'", version);
    let agent_id = fields.required("agent_id", "the agent's id, like 'agent:ken'", agent_id);
    let display = fields.optional_object("display", display);
    let endpoints = fields.optional_object("endpoints", endpoints);
    let capabilities = fields.objects("capabilities", capability);
    let limits = fields.optional_object("limits", limits);
    let security = fields.optional_object("security", security);
    Some(Card {
        v: v?.to_owned(),
        agent_id: agent_id?,
        display: display?.unwrap_or_default(),
        endpoints: endpoints?.unwrap_or_default(),
        capabilities: capabilities?,
        limits: limits?.unwrap_or_default(),
        security: security?.unwrap_or_default(),
        rest: Rest::new(),
    })
}

fn version(value: &Value) -> Result<&str, Flaw> {
    match parse::string(value)? {
        v if v == VERSION => Ok(v),
        other => {
            let message = format!("{} is not spoken here: expected '{VERSION}'", quoted(other));
            Err(Flaw::new(FaultCode::UnsupportedVersion, message))
        }
    }
}

fn agent_id(value: &Value) -> Result<AgentId, Flaw> {
    match addressee::recipient(value)? {
        Address::Agent(id) => Ok(id),
        other => Err(Flaw::new(FaultCode::ReservedName, format!("{} is no agent", quoted(&other.to_string())))),
    }
}

fn owned<'a>(form: impl Fn(&'a Value) -> Result<&'a str, Flaw>) -> impl Fn(&'a Value) -> Result<String, Flaw> {
    move |value| form(value).map(str::to_owned)
}

fn words(fields: &mut Fields<'_>, field: &str) -> Read<Vec<String>> {
    fields.list(field, |value| parse::name(limit::NAME_BYTES)(value).map(str::to_owned))
}

fn display(fields: &mut Fields<'_>) -> Read<Display> {
    let name = fields.optional("name", owned(parse::text(limit::NAME_BYTES)));
    let desc = fields.optional("desc", owned(parse::text(limit::TITLE_BYTES)));
    Some(Display { name: name?, desc: desc?, rest: rest(fields.object(), &DISPLAY) })
}

fn endpoints(fields: &mut Fields<'_>) -> Read<Endpoints> {
    let a2a = fields.optional_object("a2a", endpoint);
    let clutch = fields.optional_object("clutch", endpoint);
    Some(Endpoints { a2a: a2a?, clutch: clutch?, rest: rest(fields.object(), &ENDPOINTS) })
}

fn endpoint(fields: &mut Fields<'_>) -> Read<Endpoint> {
    let url = fields.required("url", "an http or https address", url)?;
    Some(Endpoint { url: url.to_owned(), rest: rest(fields.object(), &ENDPOINT) })
}

fn capability(fields: &mut Fields<'_>) -> Read<Capability> {
    let id = fields.required("id", "a kind and a name, like 'skill:research'", capability_id);
    let version = fields.optional("version", stated);
    let tags = words(fields, "tags");
    let tools = words(fields, "tools");
    let servers = words(fields, "servers");
    let trust_level =
        fields.optional("trust_level", |value| parse::one_of(value, &TrustLevel::ALL, TrustLevel::as_str));
    let cost_hint = fields.optional("cost_hint", |value| parse::one_of(value, &CostHint::ALL, CostHint::as_str));
    Some(Capability {
        id: id?.to_owned(),
        version: version?,
        tags: tags?,
        tools: tools?,
        trust_level: trust_level?,
        cost_hint: cost_hint?,
        servers: servers?,
        rest: rest(fields.object(), &CAPABILITY),
    })
}

fn capability_id(value: &Value) -> Result<&str, Flaw> {
    let id = parse::name(limit::NAME_BYTES + "skill:".len())(value)?;
    let named = id.split_once(':').is_some_and(|(kind, name)| !kind.is_empty() && !name.is_empty());
    if named && !id.contains('@') {
        return Ok(id);
    }
    let expected = "must be a kind and a name, like 'skill:research'; a version goes into a field of its own";
    Err(Flaw::invalid(format!("{} {expected}", quoted(id))))
}

fn stated(value: &Value) -> Result<String, Flaw> {
    let text = parse::text(limit::NAME_BYTES)(value)?;
    CapabilityVersion::parse(text).map(|_| text.to_owned()).map_err(Flaw::invalid)
}

fn limits(fields: &mut Fields<'_>) -> Read<Limits> {
    let max_concurrency = fields.optional("max_concurrency", parse::count);
    let max_runtime_sec = fields.optional("max_runtime_sec", parse::count);
    Some(Limits {
        max_concurrency: max_concurrency?,
        max_runtime_sec: max_runtime_sec?,
        rest: rest(fields.object(), &LIMITS),
    })
}

fn security(fields: &mut Fields<'_>) -> Read<Security> {
    let sandbox = fields.optional("sandbox", parse::boolean);
    let network = fields.optional("network", owned(parse::name(limit::NAME_BYTES)));
    let restricts = fields.has("tool_allowlist");
    let tools = words(fields, "tool_allowlist");
    let mut kids = BTreeSet::new();
    let keys = fields.objects("keys", |fields| {
        let key = key(fields)?;
        if !kids.insert(key.kid.clone()) {
            fields.fault("kid", Flaw::invalid(format!("{} is the name of another key already", quoted(&key.kid))));
        }
        Some(key)
    });
    Some(Security {
        sandbox: sandbox?,
        network: network?,
        tool_allowlist: restricts.then_some(tools?),
        keys: keys?,
        rest: rest(fields.object(), &SECURITY),
    })
}

fn key(fields: &mut Fields<'_>) -> Read<SigningKey> {
    let kid = fields.required("kid", "the key's name", owned(parse::name(limit::NAME_BYTES)));
    let public_key = fields.required("public_key", "an ed25519 key in base64", public_key);
    Some(SigningKey { kid: kid?, public_key: public_key?.to_owned(), rest: rest(fields.object(), &KEY) })
}

fn public_key(value: &Value) -> Result<&str, Flaw> {
    let text = parse::string(value)?;
    match is_public_key(text) {
        true => Ok(text),
        false => Err(Flaw::invalid("must be the 32 bytes of an ed25519 key in base64")),
    }
}

/// An address that messages could be sent to. Nothing that lets somebody in may stand in a card, which everybody reads.
fn url(value: &Value) -> Result<&str, Flaw> {
    let url = parse::text(limit::URL_BYTES)(value)?;
    check_url(url).map(|()| url).map_err(Flaw::invalid)
}

fn check_url(url: &str) -> Result<(), &'static str> {
    let scheme = |name: &str| url.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name));
    let rest = match url.find("://") {
        Some(at) if scheme("http://") || scheme("https://") => &url[at + 3..],
        _ => return Err("must be an http or https address"),
    };
    if url.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err("must not contain spaces, control characters or backslashes");
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("must not contain a user or a password");
    }
    let (host, port) = match authority.rsplit_once(':') {
        // The last colon of an address in brackets may be its own.
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    };
    if host.is_empty() || host.starts_with('[') != host.ends_with(']') {
        return Err("must name a host");
    }
    match port.map(str::parse::<u16>) {
        Some(Err(_) | Ok(0)) => Err("has a port that cannot be"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The card of the protocol's own description.
    fn ken() -> Value {
        json!({
            "v": "clutch/0.1",
            "agent_id": "agent:ken",
            "display": { "name": "Ken", "desc": "Research specialist" },
            "endpoints": { "a2a": { "url": "http://ken:8080/a2a" }, "clutch": { "url": "http://ken:8080/clutch" } },
            "capabilities": [
                { "id": "skill:research", "version": "1.0", "tags": ["market", "competitive", "fintech"],
                  "tools": ["mcp:browser", "mcp:files"], "trust_level": "sandbox", "cost_hint": "medium" },
                { "id": "tool:mcp", "servers": ["mcp:browser", "mcp:files"] },
            ],
            "limits": { "max_concurrency": 2, "max_runtime_sec": 600 },
            "security": { "sandbox": true, "network": "egress-restricted" },
        })
    }

    fn with(pointer: &str, value: Value) -> Value {
        let mut card = ken();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        match card.pointer_mut(parent).unwrap() {
            Value::Object(fields) => drop(fields.insert(name.to_owned(), value)),
            Value::Array(entries) => entries[name.parse::<usize>().unwrap()] = value,
            other => panic!("{other}"),
        }
        card
    }

    fn faults(card: &Value) -> Vec<(FaultCode, String)> {
        Card::read(card).unwrap_err().iter().map(|fault| (fault.code, fault.pointer.clone())).collect()
    }

    #[test]
    fn the_card_of_the_protocol_is_shown_as_it_was_said() {
        let card = Card::parse(ken().to_string().as_bytes()).unwrap();
        assert_eq!(card.agent_id.as_str(), "ken");
        assert_eq!(serde_json::to_value(&card).unwrap(), ken());
        assert_eq!(serde_json::from_value::<Card>(ken()).unwrap(), card);
    }

    #[test]
    fn what_is_not_known_is_kept_wherever_it_stands() {
        let mut said = ken();
        for at in ["", "/display", "/endpoints", "/endpoints/clutch", "/capabilities/0", "/limits", "/security"] {
            said.pointer_mut(at).unwrap()["x"] = json!({ "deep": [1, 2.5, null, "ü"] });
        }
        assert_eq!(serde_json::to_value(Card::read(&said).unwrap()).unwrap(), said);
    }

    #[test]
    fn little_is_needed() {
        let card = Card::read(&json!({ "v": "clutch/0.1", "agent_id": "ken" })).unwrap();
        assert_eq!(card.limits.max_concurrency, None);
        let shown = json!({ "v": "clutch/0.1", "agent_id": "agent:ken", "capabilities": [] });
        assert_eq!(serde_json::to_value(&card).unwrap(), shown);
    }

    #[test]
    fn every_fault_has_its_code_and_its_place() {
        use FaultCode::*;
        let long = "x".repeat(257);
        for (pointer, value, code) in [
            ("/v", json!("clutch/9"), UnsupportedVersion),
            ("/v", json!(1), WrongType),
            ("/v", json!(null), WrongType),
            ("/agent_id", json!(""), InvalidField),
            ("/agent_id", json!("agent:"), InvalidField),
            ("/agent_id", json!("agent:a b"), InvalidField),
            ("/agent_id", json!("agent:orchestrator"), ReservedName),
            ("/agent_id", json!("person:anna"), ReservedName),
            ("/agent_id", json!("group:workers"), ReservedName),
            ("/agent_id", json!("router"), ReservedName),
            ("/agent_id", json!(long), TooLarge),
            ("/display", json!("Ken"), WrongType),
            ("/display/name", json!(7), WrongType),
            ("/display/name", json!(long), TooLarge),
            ("/endpoints", json!([]), WrongType),
            ("/endpoints/clutch", json!("http://ken"), WrongType),
            ("/endpoints/clutch/url", json!("ftp://ken/"), InvalidField),
            ("/endpoints/clutch/url", json!("ken:8080"), InvalidField),
            ("/endpoints/clutch/url", json!("http://"), InvalidField),
            ("/endpoints/clutch/url", json!("http://:80/"), InvalidField),
            ("/endpoints/clutch/url", json!("http://ken:99999/"), InvalidField),
            ("/endpoints/clutch/url", json!("http://me:secret@ken/"), InvalidField),
            ("/endpoints/clutch/url", json!("http://ken/a b"), InvalidField),
            ("/endpoints/clutch/url", json!(format!("http://{}", "x".repeat(2_048))), TooLarge),
            ("/capabilities", json!({}), WrongType),
            ("/capabilities", json!(vec![json!({"id": "skill:x"}); 1_001]), TooLarge),
            ("/capabilities/0", json!("skill:research"), WrongType),
            ("/capabilities/0/id", json!("research"), InvalidField),
            ("/capabilities/0/id", json!("skill:"), InvalidField),
            ("/capabilities/0/id", json!("skill:research@1.0"), InvalidField),
            ("/capabilities/0/version", json!("one"), InvalidField),
            ("/capabilities/0/version", json!(">2, <1"), InvalidField),
            ("/capabilities/0/version", json!(1.0), WrongType),
            ("/capabilities/0/tags", json!("fintech"), WrongType),
            ("/capabilities/0/tags/1", json!(3), WrongType),
            ("/capabilities/0/tags/1", json!("a b"), InvalidField),
            ("/capabilities/0/tools/0", json!(""), InvalidField),
            ("/capabilities/1/servers/0", json!({}), WrongType),
            ("/capabilities/0/trust_level", json!("high"), InvalidField),
            ("/capabilities/0/cost_hint", json!("free"), InvalidField),
            ("/limits", json!(2), WrongType),
            ("/limits/max_concurrency", json!(-1), InvalidField),
            ("/limits/max_concurrency", json!(1.5), InvalidField),
            ("/limits/max_runtime_sec", json!(0), InvalidField),
            ("/limits/max_runtime_sec", json!("600"), WrongType),
            ("/security/sandbox", json!("yes"), WrongType),
            ("/security/network", json!(""), InvalidField),
            ("/security/tool_allowlist", json!("mcp:files"), WrongType),
            ("/security/keys", json!({ "kid": "k" }), WrongType),
        ] {
            let card = with(pointer, value.clone());
            assert_eq!(faults(&card), [(code, pointer.to_owned())], "{value}");
        }
    }

    /// What the schema can say, it says as the reader does.
    #[test]
    fn the_schema_takes_what_the_reader_takes() {
        let schema = jsonschema::validator_for(&Card::schema()).unwrap();
        let key = json!([{ "kid": "k", "public_key": "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo" }]);
        for card in [
            ken(),
            with("/agent_id", json!("ken@pr-1")),
            with("/display/name", json!(null)),
            with("/capabilities", json!(null)),
            with("/limits/max_concurrency", json!(2.0)),
            with("/security/keys", key),
        ] {
            assert!(Card::read(&card).is_ok() && schema.is_valid(&card), "{card}");
        }
        for (pointer, value) in [
            ("/v", json!("clutch/9")),
            ("/agent_id", json!("a b")),
            ("/agent_id", json!("group:x")),
            ("/agent_id", json!("agent:agent:x")),
            ("/display/name", json!(7)),
            ("/endpoints/clutch", json!({})),
            ("/endpoints/clutch/url", json!("ftp://ken/")),
            ("/capabilities/0/id", json!("research")),
            ("/capabilities/0/tags/0", json!("a b")),
            ("/capabilities/0/trust_level", json!("high")),
            ("/limits/max_concurrency", json!(0)),
            ("/limits/max_runtime_sec", json!(1.5)),
            ("/security/sandbox", json!("yes")),
            ("/security/keys", json!([{ "kid": "k", "public_key": "short" }])),
        ] {
            let card = with(pointer, value);
            assert!(Card::read(&card).is_err() && !schema.is_valid(&card), "{card}");
        }
    }

    #[test]
    fn what_is_needed_and_missing_is_told() {
        for (pointer, field) in [("", "v"), ("", "agent_id"), ("/endpoints/clutch", "url"), ("/capabilities/0", "id")] {
            let mut card = ken();
            card.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove(field);
            assert_eq!(faults(&card), [(FaultCode::MissingField, format!("{pointer}/{field}"))]);
        }
    }

    #[test]
    fn all_faults_are_told_at_once() {
        let card = json!({
            "agent_id": "a b", "display": 1, "capabilities": [{ "id": "x", "version": "?" }, 2],
            "limits": { "max_concurrency": "many" }, "endpoints": { "a2a": {} },
        });
        let mut at: Vec<String> = faults(&card).into_iter().map(|(_, pointer)| pointer).collect();
        at.sort_unstable();
        let expected = [
            "/agent_id",
            "/capabilities/0/id",
            "/capabilities/0/version",
            "/capabilities/1",
            "/display",
            "/endpoints/a2a/url",
            "/limits/max_concurrency",
            "/v",
        ];
        assert_eq!(at, expected);
    }

    #[test]
    fn what_is_no_card_at_all_is_told_so() {
        for value in [json!(null), json!([]), json!("card"), json!(1)] {
            assert_eq!(faults(&value), [(FaultCode::WrongType, String::new())]);
        }
        let large = with("/x", json!("x".repeat(limit::CARD_BYTES)));
        assert_eq!(faults(&large), [(FaultCode::TooLarge, String::new())]);
        for (bytes, code) in [
            (r#"{"v":"#, FaultCode::MalformedJson),
            ("", FaultCode::MalformedJson),
            (r#"{"v":"clutch/0.1","agent_id":"a","agent_id":"b"}"#, FaultCode::DuplicateKey),
        ] {
            assert_eq!(Card::parse(bytes.as_bytes()).unwrap_err().first().unwrap().code, code, "{bytes}");
        }
    }

    #[test]
    fn keys_are_ed25519_and_have_names_of_their_own() {
        let key = |kid: &str| json!({ "kid": kid, "public_key": "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=" });
        Card::read(&with("/security/keys", json!([key("k1"), key("k2")]))).unwrap();
        for (bad, pointer) in [
            (json!([key("k1"), key("k1")]), "/security/keys/1/kid"),
            (json!([{ "kid": "k1" }]), "/security/keys/0/public_key"),
            (json!([{ "kid": "k1", "public_key": "short" }]), "/security/keys/0/public_key"),
            (json!([{ "public_key": key("k")["public_key"] }]), "/security/keys/0/kid"),
        ] {
            let told = faults(&with("/security/keys", bad));
            assert_eq!((told.len(), told[0].1.as_str()), (1, pointer));
        }
    }

    #[test]
    fn addresses_may_have_ports_and_brackets() {
        for url in ["https://ken", "HTTP://ken:8080/x?y#z", "http://127.0.0.1:1/", "http://[::1]:8080/", "http://[::1]"]
        {
            assert_eq!(check_url(url), Ok(()), "{url}");
        }
    }
}
