//! Reading a card from JSON: everything that is wrong with it is told at once, with a pointer to each field.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Capability, Card, CostHint, Display, Endpoint, Endpoints, Limits, Rest, Security, SigningKey, TrustLevel};
use crate::actor::Actor;
use crate::clutch::fault::{Fault, FaultCode};
use crate::clutch::version::Stated;
use crate::envelope::VERSION;
use crate::id::AgentId;
use crate::limit;

/// A card as JSON, with what it says beyond what is known here.
pub const CARD_BYTES: usize = 64 * 1024;
pub(super) const URL_BYTES: usize = 2 * 1024;
/// Entries of a list: capabilities, tags, tools, keys.
pub(super) const ENTRIES: usize = limit::LIST_ENTRIES;
/// The base64 of the 32 bytes of an ed25519 key, without padding.
const KEY_CHARS: usize = 43;

/// An agent's id, with or without its prefix.
pub fn id_of(text: &str) -> &str {
    text.strip_prefix("agent:").unwrap_or(text)
}

impl Card {
    pub fn read(value: &Value) -> Result<Card, Vec<Fault>> {
        let mut reader = Reader { faults: vec![] };
        let card = reader.card(value);
        match card {
            Some(card) if reader.faults.is_empty() => Ok(card),
            _ => Err(reader.faults),
        }
    }
}

/// Collects faults and goes on: whatever cannot be read is left out, and the card with it at the end.
struct Reader {
    faults: Vec<Fault>,
}

/// An object while its fields are taken out one by one; what stays is what is not known.
struct Fields {
    at: String,
    rest: Map<String, Value>,
}

impl Fields {
    fn pointer(&self, name: &str) -> String {
        format!("{}/{}", self.at, name.replace('~', "~0").replace('/', "~1"))
    }

    /// A field that is there; `null` says as little as nothing.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.rest.remove(name).filter(|value| !value.is_null())
    }
}

impl Reader {
    fn card(&mut self, value: &Value) -> Option<Card> {
        let size = value.to_string().len();
        if size > CARD_BYTES {
            self.fault(FaultCode::TooLarge, "", format!("the card is {size} bytes; at most {CARD_BYTES} are taken"));
            return None;
        }
        let mut fields = self.object(value.clone(), String::new())?;
        let v = self.version(&mut fields);
        let agent_id = self.agent_id(&mut fields);
        let display = self.part(&mut fields, "display", Reader::display);
        let endpoints = self.part(&mut fields, "endpoints", Reader::endpoints);
        let capabilities = self.entries(&mut fields, "capabilities", Reader::capability);
        let limits = self.part(&mut fields, "limits", Reader::limits);
        let security = self.part(&mut fields, "security", Reader::security);
        Some(Card { v: v?, agent_id: agent_id?, display, endpoints, capabilities, limits, security, rest: fields.rest })
    }

    fn version(&mut self, fields: &mut Fields) -> Option<String> {
        let v = self.needed_text(fields, "v", limit::NAME_BYTES)?;
        if v != VERSION {
            let message = format!("'{v}' is not spoken here; send {VERSION}");
            self.fault(FaultCode::UnsupportedVersion, &fields.pointer("v"), message);
            return None;
        }
        Some(v)
    }

    fn agent_id(&mut self, fields: &mut Fields) -> Option<AgentId> {
        let text = self.needed_name(fields, "agent_id", limit::AGENT_ID_BYTES + "agent:".len())?;
        let (id, pointer) = (id_of(&text), fields.pointer("agent_id"));
        if id.is_empty() {
            self.fault(FaultCode::Invalid, &pointer, "names no agent".to_owned());
            return None;
        }
        if Actor::is_reserved(id) {
            self.fault(FaultCode::Invalid, &pointer, format!("'{id}' is reserved; choose another id"));
            return None;
        }
        Some(AgentId::from(id))
    }

    fn display(&mut self, mut fields: Fields) -> Display {
        let name = self.text(&mut fields, "name", limit::NAME_BYTES);
        let desc = self.text(&mut fields, "desc", limit::TITLE_BYTES);
        Display { name, desc, rest: fields.rest }
    }

    fn endpoints(&mut self, mut fields: Fields) -> Endpoints {
        let a2a = self.endpoint(&mut fields, "a2a");
        let clutch = self.endpoint(&mut fields, "clutch");
        Endpoints { a2a, clutch, rest: fields.rest }
    }

    fn endpoint(&mut self, fields: &mut Fields, name: &str) -> Option<Endpoint> {
        let pointer = fields.pointer(name);
        let mut fields = self.object(fields.take(name)?, pointer)?;
        let url = self.needed_text(&mut fields, "url", URL_BYTES)?;
        if let Err(message) = check_url(&url) {
            self.fault(FaultCode::Invalid, &fields.pointer("url"), message.to_owned());
            return None;
        }
        Some(Endpoint { url, rest: fields.rest })
    }

    fn capability(&mut self, value: Value, at: String) -> Option<Capability> {
        let mut fields = self.object(value, at)?;
        let id = self.capability_id(&mut fields);
        let version = self.text(&mut fields, "version", limit::NAME_BYTES);
        if let Some(Err(message)) = version.as_deref().map(Stated::parse) {
            self.fault(FaultCode::Invalid, &fields.pointer("version"), message);
        }
        let tags = self.entries(&mut fields, "tags", Reader::word);
        let tools = self.entries(&mut fields, "tools", Reader::word);
        let servers = self.entries(&mut fields, "servers", Reader::word);
        let trust_level = self.choice(&mut fields, "trust_level", "sandbox or prod", TrustLevel::parse);
        let cost_hint = self.choice(&mut fields, "cost_hint", "low, medium or high", CostHint::parse);
        Some(Capability { id: id?, version, tags, tools, trust_level, cost_hint, servers, rest: fields.rest })
    }

    fn capability_id(&mut self, fields: &mut Fields) -> Option<String> {
        let id = self.needed_name(fields, "id", limit::NAME_BYTES + "skill:".len())?;
        let named = id.split_once(':').is_some_and(|(kind, name)| !kind.is_empty() && !name.is_empty());
        if !named || id.contains('@') {
            let message =
                format!("'{id}' is not of the form kind:name, as skill:research is; a version goes beside it");
            self.fault(FaultCode::Invalid, &fields.pointer("id"), message);
            return None;
        }
        Some(id)
    }

    fn limits(&mut self, mut fields: Fields) -> Limits {
        let max_concurrency = self.count(&mut fields, "max_concurrency", 0);
        let max_runtime_sec = self.count(&mut fields, "max_runtime_sec", 1);
        Limits { max_concurrency, max_runtime_sec, rest: fields.rest }
    }

    fn security(&mut self, mut fields: Fields) -> Security {
        let sandbox = self.flag(&mut fields, "sandbox");
        let network = self.name(&mut fields, "network", limit::NAME_BYTES);
        let restricts = fields.rest.get("tool_allowlist").is_some_and(|list| !list.is_null());
        let allowlist = self.entries(&mut fields, "tool_allowlist", Reader::word);
        let keys: Vec<SigningKey> = self.entries(&mut fields, "keys", Reader::key);
        let mut kids = BTreeSet::new();
        if let Some(twice) = keys.iter().find(|key| !kids.insert(key.kid.as_str())) {
            let message = format!("kid '{}' is there twice", twice.kid);
            self.fault(FaultCode::Invalid, &fields.pointer("keys"), message);
        }
        Security { sandbox, network, tool_allowlist: restricts.then_some(allowlist), keys, rest: fields.rest }
    }

    fn key(&mut self, value: Value, at: String) -> Option<SigningKey> {
        let mut fields = self.object(value, at)?;
        let kid = self.needed_name(&mut fields, "kid", limit::NAME_BYTES);
        let public_key = self.needed_name(&mut fields, "public_key", limit::NAME_BYTES)?;
        if !is_key(&public_key) {
            let message = "must be the 32 bytes of an ed25519 key in base64".to_owned();
            self.fault(FaultCode::Invalid, &fields.pointer("public_key"), message);
        }
        Some(SigningKey { kid: kid?, public_key, rest: fields.rest })
    }

    /// An object that may be left out.
    fn part<T: Default>(&mut self, fields: &mut Fields, name: &str, read: fn(&mut Reader, Fields) -> T) -> T {
        let Some(value) = fields.take(name) else { return T::default() };
        let part = self.object(value, fields.pointer(name));
        part.map(|part| read(self, part)).unwrap_or_default()
    }

    /// A list that may be left out.
    fn entries<T>(
        &mut self,
        fields: &mut Fields,
        name: &str,
        read: fn(&mut Reader, Value, String) -> Option<T>,
    ) -> Vec<T> {
        let pointer = fields.pointer(name);
        match fields.take(name) {
            None => vec![],
            Some(Value::Array(entries)) if entries.len() <= ENTRIES => {
                let read = |(at, entry)| read(self, entry, format!("{pointer}/{at}"));
                entries.into_iter().enumerate().filter_map(read).collect()
            }
            Some(Value::Array(entries)) => {
                let message = format!("has {} entries; at most {ENTRIES} are taken", entries.len());
                self.fault(FaultCode::TooLarge, &pointer, message);
                vec![]
            }
            Some(_) => {
                self.fault(FaultCode::Invalid, &pointer, "must be a list".to_owned());
                vec![]
            }
        }
    }

    fn object(&mut self, value: Value, at: String) -> Option<Fields> {
        match value {
            Value::Object(rest) => Some(Fields { at, rest }),
            _ => {
                self.fault(FaultCode::Invalid, &at, "must be an object".to_owned());
                None
            }
        }
    }

    fn needed_text(&mut self, fields: &mut Fields, name: &str, most: usize) -> Option<String> {
        if fields.rest.get(name).is_none_or(Value::is_null) {
            self.fault(FaultCode::Missing, &fields.pointer(name), format!("{name} is required"));
            return None;
        }
        self.text(fields, name, most)
    }

    fn needed_name(&mut self, fields: &mut Fields, name: &str, most: usize) -> Option<String> {
        let text = self.needed_text(fields, name, most)?;
        self.as_name(text, fields.pointer(name))
    }

    fn name(&mut self, fields: &mut Fields, name: &str, most: usize) -> Option<String> {
        let text = self.text(fields, name, most)?;
        self.as_name(text, fields.pointer(name))
    }

    fn text(&mut self, fields: &mut Fields, name: &str, most: usize) -> Option<String> {
        let value = fields.take(name)?;
        self.as_text(value, fields.pointer(name), most)
    }

    fn as_text(&mut self, value: Value, pointer: String, most: usize) -> Option<String> {
        match value {
            Value::String(text) if text.len() <= most => Some(text),
            Value::String(text) => {
                let message = format!("is {} bytes; at most {most} are taken", text.len());
                self.fault(FaultCode::TooLarge, &pointer, message);
                None
            }
            _ => {
                self.fault(FaultCode::Invalid, &pointer, "must be a text".to_owned());
                None
            }
        }
    }

    fn as_name(&mut self, text: String, pointer: String) -> Option<String> {
        let bad = if text.is_empty() {
            "must not be empty"
        } else if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            "must not contain spaces or control characters"
        } else {
            return Some(text);
        };
        self.fault(FaultCode::Invalid, &pointer, bad.to_owned());
        None
    }

    /// An entry of a list of names.
    fn word(&mut self, value: Value, pointer: String) -> Option<String> {
        let text = self.as_text(value, pointer.clone(), limit::NAME_BYTES)?;
        self.as_name(text, pointer)
    }

    fn choice<T>(
        &mut self,
        fields: &mut Fields,
        name: &str,
        words: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let word = self.text(fields, name, limit::NAME_BYTES)?;
        let chosen = parse(&word);
        if chosen.is_none() {
            self.fault(FaultCode::Invalid, &fields.pointer(name), format!("'{word}' is not {words}"));
        }
        chosen
    }

    fn flag(&mut self, fields: &mut Fields, name: &str) -> Option<bool> {
        let value = fields.take(name)?;
        if value.as_bool().is_none() {
            self.fault(FaultCode::Invalid, &fields.pointer(name), "must be true or false".to_owned());
        }
        value.as_bool()
    }

    fn count(&mut self, fields: &mut Fields, name: &str, least: u32) -> Option<u32> {
        let value = fields.take(name)?;
        let count = value.as_u64().and_then(|count| u32::try_from(count).ok()).filter(|count| *count >= least);
        if count.is_none() {
            let message = format!("must be a whole number from {least} to {}", u32::MAX);
            self.fault(FaultCode::Invalid, &fields.pointer(name), message);
        }
        count
    }

    fn fault(&mut self, code: FaultCode, pointer: &str, message: String) {
        self.faults.push(Fault { code, pointer: pointer.to_owned(), message });
    }
}

/// Whether messages could be sent there. Nothing that lets somebody in may stand in a card, which everybody can read.
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
        Some(Err(_)) | Some(Ok(0)) => Err("has a port that cannot be"),
        _ => Ok(()),
    }
}

fn is_key(text: &str) -> bool {
    let text = text.strip_suffix('=').unwrap_or(text);
    text.len() == KEY_CHARS && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte))
}

/// What a card says beside the fields that are known, for whoever adds to it.
pub(super) fn object_of<'a>(rest: &'a Rest, name: &str) -> Option<&'a Map<String, Value>> {
    rest.get(name).and_then(Value::as_object)
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

    #[test]
    fn the_card_of_the_protocol_is_shown_as_it_was_said() {
        let card = Card::read(&ken()).unwrap();
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
            ("/v", json!(null), Missing),
            ("/v", json!("clutch/9"), UnsupportedVersion),
            ("/v", json!(1), Invalid),
            ("/agent_id", json!(null), Missing),
            ("/agent_id", json!(""), Invalid),
            ("/agent_id", json!("agent:"), Invalid),
            ("/agent_id", json!("agent:a b"), Invalid),
            ("/agent_id", json!("agent:orchestrator"), Invalid),
            ("/agent_id", json!("person:anna"), Invalid),
            ("/agent_id", json!("group:workers"), Invalid),
            ("/agent_id", json!(long), TooLarge),
            ("/display", json!("Ken"), Invalid),
            ("/display/name", json!(7), Invalid),
            ("/display/name", json!(long), TooLarge),
            ("/endpoints", json!([]), Invalid),
            ("/endpoints/clutch", json!("http://ken"), Invalid),
            ("/endpoints/clutch/url", json!(null), Missing),
            ("/endpoints/clutch/url", json!("ftp://ken/"), Invalid),
            ("/endpoints/clutch/url", json!("ken:8080"), Invalid),
            ("/endpoints/clutch/url", json!("http://"), Invalid),
            ("/endpoints/clutch/url", json!("http://:80/"), Invalid),
            ("/endpoints/clutch/url", json!("http://ken:99999/"), Invalid),
            ("/endpoints/clutch/url", json!("http://me:secret@ken/"), Invalid),
            ("/endpoints/clutch/url", json!("http://ken/a b"), Invalid),
            ("/endpoints/clutch/url", json!(format!("http://{}", "x".repeat(2_048))), TooLarge),
            ("/capabilities", json!({}), Invalid),
            ("/capabilities", json!(vec![json!({"id": "skill:x"}); 1_001]), TooLarge),
            ("/capabilities/0", json!("skill:research"), Invalid),
            ("/capabilities/0/id", json!(null), Missing),
            ("/capabilities/0/id", json!("research"), Invalid),
            ("/capabilities/0/id", json!("skill:"), Invalid),
            ("/capabilities/0/id", json!("skill:research@1.0"), Invalid),
            ("/capabilities/0/version", json!("one"), Invalid),
            ("/capabilities/0/version", json!(">2, <1"), Invalid),
            ("/capabilities/0/version", json!(1.0), Invalid),
            ("/capabilities/0/tags", json!("fintech"), Invalid),
            ("/capabilities/0/tags/1", json!(3), Invalid),
            ("/capabilities/0/tags/1", json!("a b"), Invalid),
            ("/capabilities/0/tools/0", json!(""), Invalid),
            ("/capabilities/1/servers/0", json!({}), Invalid),
            ("/capabilities/0/trust_level", json!("high"), Invalid),
            ("/capabilities/0/cost_hint", json!("free"), Invalid),
            ("/limits", json!(2), Invalid),
            ("/limits/max_concurrency", json!(-1), Invalid),
            ("/limits/max_concurrency", json!(1.5), Invalid),
            ("/limits/max_runtime_sec", json!(0), Invalid),
            ("/limits/max_runtime_sec", json!("600"), Invalid),
            ("/security/sandbox", json!("yes"), Invalid),
            ("/security/network", json!(""), Invalid),
            ("/security/tool_allowlist", json!("mcp:files"), Invalid),
            ("/security/keys", json!({ "kid": "k" }), Invalid),
        ] {
            let faults = Card::read(&with(pointer, value.clone())).unwrap_err();
            assert_eq!(faults.len(), 1, "{pointer} {value}: {faults:?}");
            assert_eq!((faults[0].code, faults[0].pointer.as_str()), (code, pointer), "{value}");
            assert!(!faults[0].message.is_empty());
        }
    }

    #[test]
    fn all_faults_are_told_at_once() {
        let faults = Card::read(&json!({
            "agent_id": "a b", "display": 1, "capabilities": [{ "id": "x", "version": "?" }, 2],
            "limits": { "max_concurrency": "many" }, "endpoints": { "a2a": {} },
        }))
        .unwrap_err();
        let mut at: Vec<&str> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
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
            let faults = Card::read(&value).unwrap_err();
            assert_eq!((faults.len(), faults[0].pointer.as_str()), (1, ""));
        }
        let large = with("/x", json!("x".repeat(CARD_BYTES)));
        assert_eq!(Card::read(&large).unwrap_err()[0].code, FaultCode::TooLarge);
    }

    #[test]
    fn keys_are_ed25519_and_have_names_of_their_own() {
        let key = |kid: &str| json!({ "kid": kid, "public_key": "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=" });
        Card::read(&with("/security/keys", json!([key("k1"), key("k2")]))).unwrap();
        for bad in [
            json!([key("k1"), key("k1")]),
            json!([{ "kid": "k1" }]),
            json!([{ "kid": "k1", "public_key": "short" }]),
            json!([{ "public_key": "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo" }]),
        ] {
            assert_eq!(Card::read(&with("/security/keys", bad)).unwrap_err().len(), 1);
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
