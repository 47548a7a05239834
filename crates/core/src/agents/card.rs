//! An agent announces itself by a card, or changes a part of it. Both are announcing: what the card says in other words
//! than the other faces is said in theirs too.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{EndpointGrant, KeyProof, RegisterAgent};
use crate::kernel::caller::Caller;
use crate::kernel::code::Code;
use crate::kernel::id::AgentId;
use crate::kernel::rejection::Rejection;
use crate::model::capabilities::Card;
use crate::model::{Key, ReadSet, Undecided, View};
use crate::traits::{Command, Decision, DecisionContext};

/// Joins the team by a card, or replaces the card that the team knows. What the agent said by other faces and a card
/// cannot say stays.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RegisterCard {
    pub card: Card,
    /// Messages may be posted to the host and port of the card's endpoint, wherever they are. Only people may say so.
    #[serde(default)]
    pub allow_endpoint: bool,
}

/// Changes a part of an agent's card, whichever way it joined: objects are merged, `null` takes a field away, everything
/// else replaces what was there (RFC 7396).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct UpdateCard {
    pub agent: AgentId,
    pub change: Map<String, Value>,
}

impl Command for RegisterCard {
    const NAME: &'static str = "RegisterCard";

    fn read_set(&self) -> ReadSet {
        read_set(&self.card.agent_id)
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision, Undecided> {
        self.announces(cx.view, cx.caller, KeyProof::ByNobody)
    }
}

impl RegisterCard {
    pub(crate) fn announces(&self, view: &View, caller: &Caller, vouched: KeyProof) -> Result<Decision, Undecided> {
        let card = read(&serde_json::to_value(&self.card).unwrap_or_default())?;
        let grant = if self.allow_endpoint { EndpointGrant::ByPerson } else { EndpointGrant::Unchanged };
        register(card, view, caller, vouched, grant)
    }
}

impl Command for UpdateCard {
    const NAME: &'static str = "UpdateCard";

    fn read_set(&self) -> ReadSet {
        read_set(&self.agent)
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision, Undecided> {
        self.announces(cx.view, cx.caller, KeyProof::ByNobody)
    }
}

impl UpdateCard {
    pub(crate) fn announces(&self, view: &View, caller: &Caller, vouched: KeyProof) -> Result<Decision, Undecided> {
        let known = Card::of(view.agent(&self.agent)?);
        let mut changed = serde_json::to_value(&known).unwrap_or_default();
        merge(&mut changed, &Value::Object(self.change.clone()));
        let card = read(&changed)?;
        if card.agent_id != self.agent {
            return Err(Rejection::new(Code::Invalid, "/agent_id: a change cannot give an agent another id").into());
        }
        register(card, view, caller, vouched, EndpointGrant::Unchanged)
    }
}

fn read_set(agent: &AgentId) -> ReadSet {
    vec![Key::Agent(agent.clone()).into(), Key::lead().into()]
}

fn register(
    card: Card,
    view: &View,
    caller: &Caller,
    vouched: KeyProof,
    grant: EndpointGrant,
) -> Result<Decision, Undecided> {
    let id = card.agent_id.clone();
    let known = view.find_agent(&id)?.filter(|agent| !agent.has_left()).map(|agent| &agent.profile);
    let profile = card.profile(known);
    RegisterAgent { id, profile }.announces(view, caller, vouched, grant)
}

/// Whatever way a card came here, it is one that could have come in.
fn read(card: &Value) -> Result<Card, Rejection> {
    Card::read(card).map_err(|faults| {
        Rejection::new(Code::Invalid, faults.to_string()).hint("'rookery schema card' describes what a card can say")
    })
}

fn merge(into: &mut Value, change: &Value) {
    let Value::Object(change) = change else {
        *into = change.clone();
        return;
    };
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    let Value::Object(fields) = into else { return };
    for (name, value) in change {
        if value.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agents::LeaveTeam;
    use crate::kernel::caller::Auth;
    use crate::kernel::id::Timestamp;
    use crate::kernel::limit;
    use crate::kernel::outbound::SandboxReach;
    use crate::kernel::session_key::Session;
    use crate::model::agent::AgentRole;
    use crate::testing::{World, anna, by, register as announce, with_token};

    fn card(id: &str, more: Value) -> RegisterCard {
        let mut card = json!({ "v": "clutch/0.1", "agent_id": id });
        merge(&mut card, &more);
        RegisterCard { card: Card::read(&card).unwrap(), allow_endpoint: false }
    }

    fn change(agent: &str, change: Value) -> UpdateCard {
        UpdateCard { agent: agent.into(), change: change.as_object().unwrap().clone() }
    }

    fn shown(w: &World, agent: &str) -> Value {
        serde_json::to_value(Card::of(w.agent(agent))).unwrap()
    }

    #[test]
    fn a_card_is_told_in_the_words_of_the_other_faces() {
        let mut w = World::default();
        let ken = card(
            "agent:ken",
            json!({ "display": { "name": "Ken" }, "meta": { "framework": "langgraph", "role": "coordinator" },
                    "capabilities": [{ "id": "skill:research", "version": "1.0" }, { "id": "skill:research",
                    "version": "2.0" }, { "id": "tool:mcp", "servers": ["mcp:browser"] }, { "id": "model:x" }] }),
        );
        assert_eq!(w.does(&by("ken"), ken), ["agent.registered", "lead.chosen"]);
        let profile = &w.agent("ken").profile;
        assert_eq!((profile.tool.as_str(), profile.role), ("langgraph", AgentRole::Lead));
        assert_eq!((profile.name.as_deref(), w.seat().unwrap().asked), (Some("Ken"), true));
        assert_eq!(profile.capabilities, ["research", "tool:mcp", "model:x"]);
        let mut w = World::of(&["lead"]);
        w.does(&by("bare"), card("bare", json!({})));
        let profile = &w.agent("bare").profile;
        assert_eq!((profile.tool.as_str(), profile.role, profile.capabilities.len()), ("custom", AgentRole::Worker, 0));
    }

    #[test]
    fn the_same_card_again_is_no_news_and_another_is() {
        let mut w = World::of(&["lead"]);
        let ken = card("ken", json!({ "limits": { "max_concurrency": 2 }, "x": 1 }));
        assert_eq!(w.does(&by("ken"), ken.clone()), ["agent.registered"]);
        assert_eq!(w.does(&by("ken"), ken), [""; 0]);
        assert_eq!(w.does(&by("ken"), card("ken", json!({ "x": 2 }))), ["agent.updated"]);
        assert_eq!(shown(&w, "ken"), json!({ "v": "clutch/0.1", "agent_id": "agent:ken", "capabilities": [], "x": 2 }));
    }

    #[test]
    fn what_other_faces_said_and_a_card_cannot_say_stays() {
        let mut w = World::of(&["lead"]);
        let mut said = announce("ken", AgentRole::Specialist);
        said.profile.workspace_path = Some("/w".to_owned());
        said.profile.metadata.insert("k".to_owned(), json!(1));
        w.does(&by("ken"), said);
        w.does(&by("ken"), card("ken", json!({ "capabilities": [{ "id": "skill:research" }] })));
        let profile = &w.agent("ken").profile;
        assert_eq!((profile.tool.as_str(), profile.role), ("claude-code", AgentRole::Specialist));
        assert_eq!((profile.workspace_path.as_deref(), &profile.metadata["k"]), (Some("/w"), &json!(1)));
        assert_eq!(profile.capabilities, ["research"]);
    }

    #[test]
    fn announcing_by_another_face_keeps_what_that_face_cannot_say() {
        let mut w = World::of(&["lead"]);
        let research = json!({ "id": "skill:research", "version": "1.0", "tags": ["fintech"], "own": true });
        let said = json!({
            "display": { "name": "Ken", "desc": "finds out" }, "endpoints": { "clutch": { "url": "http://ken/" } },
            "capabilities": [research, { "id": "skill:law" }, { "id": "model:x" }],
            "limits": { "max_concurrency": 2, "per_day": 9 }, "security": { "sandbox": true },
            "meta": { "framework": "langgraph", "more": 1 },
        });
        w.does(&by("ken"), card("ken", said.clone()));
        let mut again = announce("ken", AgentRole::Worker);
        again.profile.capabilities = ["code", "research", "model:x"].map(str::to_owned).to_vec();
        assert_eq!(w.does(&by("ken"), again.clone()), ["agent.updated"]);
        let mut expected = said;
        merge(
            &mut expected,
            &json!({ "v": "clutch/0.1", "agent_id": "agent:ken", "meta": { "framework": "claude-code" },
                     "capabilities": [research, { "id": "model:x" }, { "id": "skill:code" }] }),
        );
        assert_eq!(shown(&w, "ken"), expected);
        assert_eq!(w.agent("ken").profile.name.as_deref(), Some("Ken"));
        assert_eq!(w.does(&by("ken"), again), [""; 0], "nothing new was said");
    }

    #[test]
    fn one_that_left_begins_with_a_new_card() {
        let mut w = World::of(&["lead"]);
        w.does(&by("ken"), card("ken", json!({ "limits": { "max_concurrency": 2 } })));
        w.does(&by("ken"), LeaveTeam { agent: "ken".into() });
        assert_eq!(w.refuses(&by("ken"), change("ken", json!({}))), Code::AgentNotFound);
        w.joins("ken", AgentRole::Worker);
        assert_eq!(Card::of(w.agent("ken")).limits.max_concurrency, None);
    }

    #[test]
    fn a_change_is_merged_into_the_card() {
        let mut w = World::of(&["lead", "ada"]);
        w.does(&by("ken"), card("ken", json!({ "limits": { "max_concurrency": 2, "x": 1 }, "y": 1 })));
        let more = json!({ "limits": { "max_concurrency": 5 }, "y": null, "capabilities": [{ "id": "skill:law" }] });
        assert_eq!(w.does(&by("ken"), change("ken", more.clone())), ["agent.updated"]);
        assert_eq!(w.does(&by("ken"), change("ken", more)), [""; 0]);
        let expected = json!({ "v": "clutch/0.1", "agent_id": "agent:ken", "capabilities": [{ "id": "skill:law" }],
                               "limits": { "max_concurrency": 5, "x": 1 } });
        assert_eq!(shown(&w, "ken"), expected);
        w.does(&by("ada"), change("ada", json!({ "capabilities": [{ "id": "skill:law" }] })));
        assert_eq!(w.agent("ada").profile.capabilities, ["law"], "it joined by another face");
        assert_eq!(w.agent("ada").profile.tool, "claude-code");
    }

    #[test]
    fn a_change_must_leave_a_card() {
        let mut w = World::of(&["lead", "ada"]);
        for bad in [
            json!({ "agent_id": "bob" }),
            json!({ "agent_id": null }),
            json!({ "v": "clutch/9" }),
            json!({ "limits": { "max_concurrency": -1 } }),
            json!({ "x": "x".repeat(limit::CARD_BYTES) }),
        ] {
            assert_eq!(w.refuses(&by("ada"), change("ada", bad.clone())), Code::Invalid, "{bad}");
        }
        assert_eq!(w.refuses(&anna(), change("nobody-yet", json!({}))), Code::AgentNotFound);
    }

    #[test]
    fn it_is_checked_as_announcing_is() {
        let mut w = World::of(&["lead", "a", "b"]);
        assert_eq!(w.refuses(&by("b"), card("a", json!({}))), Code::Forbidden);
        assert_eq!(w.refuses(&by("b"), change("a", json!({ "x": 1 }))), Code::Forbidden);
        w.does(&with_token("a"), announce("a", AgentRole::Worker));
        for caller in [by("a"), Caller::anonymous(), by("lead")] {
            assert_eq!(w.refuses(&caller, card("a", json!({}))), Code::CredentialRequired, "{:?}", caller.actor);
        }
        w.does(&with_token("a"), card("a", json!({})));
        let reserved = Card { agent_id: "router".into(), ..card("x", json!({})).card };
        assert_eq!(w.refuses(&anna(), RegisterCard { card: reserved, allow_endpoint: false }), Code::Invalid);
        let long = "x".repeat(limit::NAME_BYTES + 1);
        let mut named = card("x", json!({}));
        named.card.display.name = Some(long);
        assert_eq!(w.refuses(&anna(), named), Code::Invalid);
    }

    fn from_sandbox(agent: &str, hosts: &[&str]) -> Caller {
        let sandbox = Some(SandboxReach { hosts: hosts.iter().map(|host| host.parse().unwrap()).collect() });
        let session = Session { agent: agent.into(), until: Timestamp(i64::MAX), team: None, sandbox };
        Caller { auth: Auth::Session, session: Some(session.into()), ..by(agent) }
    }

    #[test]
    fn card_from_sandbox_names_only_hosts_that_the_sandbox_may_reach() {
        let mut w = World::of(&["lead"]);
        let at = |url: &str| json!({ "endpoints": { "clutch": { "url": url } } });
        let closed = from_sandbox("ken", &[]);
        for endpoints in [
            json!({ "clutch": { "url": "http://127.0.0.1:9/" } }),
            json!({ "a2a": { "url": "http://127.0.0.1:9/" } }),
            json!({ "clutch": { "url": "https://evil.example/" } }),
            json!({ "grpc": { "url": "https://evil.example/" } }),
            json!({ "grpc": "https://evil.example/" }),
        ] {
            assert_eq!(w.refuses(&closed, card("ken", json!({ "endpoints": endpoints }))), Code::Forbidden);
        }
        w.does(&closed, card("ken", json!({})));
        assert_eq!(w.refuses(&closed, change("ken", at("http://127.0.0.1:9/"))), Code::Forbidden);
        let open = from_sandbox("ken", &["hooks.example:443", "127.0.0.1:9"]);
        w.does(&open, change("ken", at("https://hooks.example/ken")));
        w.does(&open, change("ken", at("http://127.0.0.1:9/")));
        for url in ["http://hooks.example/ken", "http://127.0.0.1:10/", "http://0x7f.1:9/", "http://a.hooks.example/"] {
            assert_eq!(w.refuses(&open, change("ken", at(url))), Code::Forbidden, "{url}");
        }
        w.does(&with_token("ken"), change("ken", at("http://elsewhere.example/")));
        w.does(&closed, change("ken", json!({ "display": { "name": "Ken" } })));
        assert_eq!(w.refuses(&from_sandbox("lead", &[]), card("made-up", at("http://127.0.0.1:9/"))), Code::Forbidden);
    }

    #[test]
    fn endpoint_is_allowed_by_people_only_and_stays_allowed() {
        let mut w = World::of(&["lead"]);
        let at = json!({ "endpoints": { "clutch": { "url": "http://127.0.0.1:9/in" } } });
        let allowing = |more: &Value| RegisterCard { allow_endpoint: true, ..card("ken", more.clone()) };
        assert_eq!(w.refuses(&with_token("ken"), allowing(&at)), Code::Forbidden);
        assert_eq!(w.refuses(&anna(), allowing(&json!({}))), Code::Invalid);
        w.does(&anna(), allowing(&at));
        assert_eq!(w.agent("ken").allowed_endpoint, Some("127.0.0.1:9".parse().unwrap()));
        w.does(&with_token("ken"), change("ken", json!({ "display": { "name": "Ken" } })));
        assert_eq!(w.agent("ken").allowed_endpoint, Some("127.0.0.1:9".parse().unwrap()));
        w.does(&with_token("ken"), LeaveTeam { agent: "ken".into() });
        w.does(&with_token("ken"), card("ken", json!({})));
        assert_eq!(w.agent("ken").allowed_endpoint, None);
        assert_eq!(w.rebuilt(), *w.rows());
    }
}
