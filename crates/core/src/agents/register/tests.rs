//! Tests of [`RegisterAgent`], by what the agent announces.

use serde_json::json;

use super::*;
use crate::agents::{CurrentTask, LeaveTeam, SetAgentStatus};
use crate::kernel::caller::Auth;
use crate::kernel::outbound::SandboxReach;
use crate::kernel::session_key::Session;
use crate::testing::{World, anna, by, claim, claim_file, profile, register, with_token};

#[test]
fn first_agent_leads_until_another_asks_for_the_lead() {
    let mut w = World::default();
    assert_eq!(w.joins("a", AgentRole::Worker), ["agent.registered", "lead.chosen"]);
    assert_eq!((w.lead(), w.seat().unwrap().asked), (Some("a"), false));
    assert_eq!(w.joins("b", AgentRole::Specialist), ["agent.registered"]);
    assert_eq!(w.joins("c", AgentRole::Lead), ["agent.registered", "lead.chosen"]);
    assert_eq!((w.lead(), w.seat().unwrap().asked), (Some("c"), true));
    assert_eq!(w.joins("d", AgentRole::Lead), ["agent.registered"]);
    assert_eq!(w.lead(), Some("c"));
    assert_eq!(w.agent("d").profile.role, AgentRole::Lead, "it stays with the role that it asked for");
}

#[test]
fn lead_by_default_that_asks_for_the_lead_keeps_it() {
    let mut w = World::of(&["a", "b"]);
    assert_eq!(w.joins("a", AgentRole::Lead), ["agent.updated", "lead.chosen"]);
    assert!(w.seat().unwrap().asked);
    assert_eq!(w.joins("b", AgentRole::Lead), ["agent.updated"]);
    assert_eq!(w.lead(), Some("a"));
}

#[test]
fn repeated_registration_keeps_claims() {
    let mut w = World::of(&["a"]);
    w.creates("t", &[]);
    w.starts("a", "t");
    w.claims_file("a", "src/x").unwrap();
    assert_eq!(w.joins("a", AgentRole::Worker), [""; 0], "nothing new was said");
    assert_eq!(w.joins("a", AgentRole::Specialist), ["agent.updated"]);
    assert_eq!((w.holder("t"), w.file_holder("src/x")), (Some("a"), Some("a")));
    let agent = w.agent("a");
    assert_eq!((agent.holding, agent.status, agent.joined), (1, AgentStatus::Working, Seq(1)));
}

#[test]
fn registration_of_offline_agent_returns_it_and_chooses_lead_once() {
    let mut w = World::of(&["a"]);
    w.creates("t", &[]);
    w.starts("a", "t");
    w.goes_offline("a");
    assert_eq!(w.lead(), None);
    assert_eq!(w.joins("a", AgentRole::Lead), ["agent.updated", "agent.returned", "task.claimed", "lead.chosen"]);
    assert_eq!((w.holder("t"), w.lead()), (Some("a"), Some("a")));
    assert!(w.seat().unwrap().asked);
}

#[test]
fn registration_of_agent_that_left_adds_it_again() {
    let mut w = World::of(&["a", "b"]);
    w.does(&by("a"), LeaveTeam { agent: "a".into() });
    assert_eq!(w.joins("a", AgentRole::Worker), ["agent.registered"]);
    assert!(w.agent("a").is_online() && w.agent("a").joined > w.agent("b").joined);
}

#[test]
fn registration_with_bad_id_or_profile_is_rejected() {
    let mut w = World::default();
    let nobody = Caller::anonymous();
    for id in
        ["", "a b", "a\n", "@x", "x@", "a@b@c", "system", "watcher", "router", "person:anna", "agent:a", "group:x"]
    {
        assert_eq!(w.refuses(&nobody, register(id, AgentRole::Worker)), Code::Invalid, "{id:?}");
    }
    assert_eq!(w.refuses(&nobody, register(&"a".repeat(129), AgentRole::Worker)), Code::TooLarge);
    let with = |change: &dyn Fn(&mut Profile)| {
        let mut profile = profile(AgentRole::Worker);
        change(&mut profile);
        RegisterAgent::with_profile("a".into(), profile)
    };
    assert_eq!(w.refuses(&nobody, with(&|p| p.tool.clear())), Code::Invalid);
    assert_eq!(w.refuses(&nobody, with(&|p| p.tool = "x".repeat(257))), Code::TooLarge);
    assert_eq!(w.refuses(&nobody, with(&|p| p.capabilities = vec!["x".to_owned(); 1_001])), Code::TooLarge);
    assert_eq!(w.refuses(&nobody, with(&|p| p.workspace_path = Some("x".repeat(4_097)))), Code::TooLarge);
}

#[test]
fn registration_of_another_agent_is_for_lead_and_people() {
    let mut w = World::of(&["lead", "a", "b"]);
    assert_eq!(w.refuses(&by("b"), register("a", AgentRole::Specialist)), Code::Forbidden);
    for caller in [Caller::anonymous(), by("lead"), anna(), by("a")] {
        let role =
            if w.agent("a").profile.role == AgentRole::Worker { AgentRole::Specialist } else { AgentRole::Worker };
        assert_eq!(w.does(&caller, register("a", role)), ["agent.updated"], "{:?}", caller.actor);
    }
}

#[test]
fn lead_without_credential_may_not_act_as_agent_with_credential() {
    use crate::testing::{assign, claim_file, complete, release, with_token};
    let mut w = World::of(&["lead"]);
    w.does(&with_token("a"), register("a", AgentRole::Worker));
    for task in ["t", "u"] {
        w.creates(task, &[]);
        w.does(&with_token("a"), crate::testing::start(Some("a"), task));
    }
    w.does(&with_token("a"), claim_file("a", "x"));
    let as_it = |agent: &str| Some(AgentId::from(agent));
    assert_eq!(w.refuses(&by("lead"), crate::agents::LeaveTeam { agent: "a".into() }), Code::CredentialRequired);
    assert_eq!(
        w.refuses(&by("lead"), crate::tasks::CompleteTask { agent: as_it("a"), ..complete("t") }),
        Code::CredentialRequired
    );
    assert_eq!(
        w.refuses(&by("lead"), crate::tasks::ReleaseTask { agent: as_it("a"), ..release("t") }),
        Code::CredentialRequired
    );
    assert_eq!(w.refuses(&by("lead"), claim_file("a", "y")), Code::CredentialRequired);
    w.does(&by("lead"), assign("t", "lead"));
    let forced = crate::files::ClaimFile { insist: crate::files::ClaimMode::Force, ..claim_file("lead", "x") };
    w.does(&by("lead"), forced);
    assert_eq!(w.file_holder("x"), Some("lead"));
    w.does(&with_token("lead"), register("lead", AgentRole::Lead));
    w.does(&with_token("lead"), crate::tasks::ReleaseTask { agent: as_it("a"), ..release("u") });
}

#[test]
fn id_with_credential_is_rejected_without_it() {
    let mut w = World::of(&["lead"]);
    w.does(&with_token("a"), register("a", AgentRole::Worker));
    assert!(w.agent("a").has_credential);
    w.creates("t", &[]);
    w.does(&with_token("a"), claim("a", "t"));
    let idle = SetAgentStatus { agent: "a".into(), status: AgentStatus::Blocked, current_task: CurrentTask::AsBefore };
    for caller in [by("a"), Caller::anonymous()] {
        assert_eq!(
            w.refuses(&caller, register("a", AgentRole::Specialist)),
            Code::CredentialRequired,
            "{:?}",
            caller.actor
        );
        assert_eq!(w.refuses(&caller, claim("a", "t")), Code::CredentialRequired);
        assert_eq!(w.refuses(&caller, claim_file("a", "x")), Code::CredentialRequired);
        assert_eq!(w.refuses(&caller, idle.clone()), Code::CredentialRequired);
        assert_eq!(
            w.refuses(&caller, crate::testing::release("t")),
            Code::CredentialRequired,
            "not as the holder either"
        );
        assert_eq!(w.refuses(&caller, crate::agents::ReturnAgent { agent: "a".into() }), Code::CredentialRequired);
    }
    assert_eq!(w.refuses(&by("lead"), idle.clone()), Code::CredentialRequired, "nor as the lead, by word alone");
    assert_eq!(w.does(&with_token("lead"), idle), ["agent.status_set"], "the lead may speak for others");
    let session = Caller { auth: Auth::Session, ..by("a") };
    assert_eq!(w.does(&session, register("a", AgentRole::Specialist)), ["agent.updated"]);
    w.does(&anna(), LeaveTeam { agent: "a".into() });
    assert_eq!(
        w.refuses(&by("a"), register("a", AgentRole::Worker)),
        Code::CredentialRequired,
        "leaving breaks no seal"
    );
    w.does(&anna(), register("a", AgentRole::Worker));
    assert!(w.agent("a").has_credential);
}

#[test]
fn registration_by_observer_is_rejected() {
    let mut w = World::of(&["a"]);
    let observer = Caller { power: crate::kernel::caller::Authority::Observer, ..by("a") };
    assert_eq!(w.refuses(&observer, register("a", AgentRole::Lead)), Code::Forbidden);
}

fn presence(agent: &str) -> RegisterAgent {
    RegisterAgent { agent: agent.into(), announcement: Announcement::Presence }
}

#[test]
fn presence_adds_unknown_agent_and_keeps_known_profile() {
    let mut w = World::default();
    assert_eq!(w.does(&by("a"), presence("a")), ["agent.registered", "lead.chosen"]);
    assert_eq!(w.agent("a").profile, default_profile());
    w.does(&by("b"), register("b", AgentRole::Specialist));
    let said = w.agent("b").profile.clone();
    assert_eq!(w.does(&by("b"), presence("b")), [""; 0]);
    assert_eq!(w.agent("b").profile, said);
    w.does(&by("b"), LeaveTeam { agent: "b".into() });
    assert_eq!(w.does(&by("b"), presence("b")), ["agent.registered"]);
    assert_eq!(w.agent("b").profile, default_profile(), "it left, and what it was with it");
}

#[test]
fn presence_of_another_agent_is_rejected() {
    let mut w = World::of(&["lead", "a"]);
    assert_eq!(w.refuses(&by("a"), presence("b")), Code::Forbidden);
    assert_eq!(w.refuses(&by("a"), presence("two words")), Code::Invalid);
    w.does(&with_token("b"), presence("b"));
    assert!(w.agent("b").has_credential);
    assert_eq!(w.refuses(&by("b"), presence("b")), Code::CredentialRequired);
}

fn profile_change(agent: &str, change: ProfileChange) -> RegisterAgent {
    RegisterAgent { agent: agent.into(), announcement: Announcement::ProfileChange(change) }
}

fn metadata(key: &str, value: &str) -> Metadata {
    [(key.to_owned(), value.into())].into_iter().collect()
}

fn noting(agent: &str, key: &str, value: &str) -> RegisterAgent {
    profile_change(agent, ProfileChange { workspace_path: None, metadata: metadata(key, value), session_id: None })
}

#[test]
fn profile_change_keeps_fields_that_it_does_not_name() {
    let mut w = World::of(&["lead", "a"]);
    assert_eq!(w.does(&by("a"), noting("a", "one", "1")), ["agent.updated"]);
    let both =
        ProfileChange { workspace_path: Some("/w".to_owned()), metadata: metadata("two", "2"), session_id: None };
    w.does(&anna(), profile_change("a", both));
    w.does(&by("lead"), noting("a", "one", "3"));
    let profile = &w.agent("a").profile;
    assert_eq!(serde_json::to_value(&profile.metadata).unwrap(), serde_json::json!({"one": "3", "two": "2"}));
    assert_eq!((profile.workspace_path.as_deref(), profile.tool.as_str()), (Some("/w"), "claude-code"));
    assert_eq!(w.does(&by("a"), noting("a", "two", "2")), [""; 0], "nothing new was said");
}

#[test]
fn profile_change_of_another_or_unknown_agent_is_rejected() {
    let mut w = World::of(&["lead", "a", "b"]);
    assert_eq!(w.refuses(&by("b"), noting("a", "one", "1")), Code::Forbidden);
    assert_eq!(w.refuses(&by("b"), noting("unknown", "one", "1")), Code::AgentNotFound);
    w.does(&by("b"), crate::agents::LeaveTeam { agent: "b".into() });
    assert_eq!(w.refuses(&by("b"), noting("b", "one", "1")), Code::AgentNotFound, "one that left registers anew");
    let much = "x".repeat(limit::METADATA_BYTES);
    assert_eq!(w.refuses(&by("a"), noting("a", "one", &much)), Code::TooLarge);
}

fn read_card(id: &str, more: &Value) -> Card {
    let mut card = json!({ "v": "clutch/0.1", "agent_id": id });
    merge(&mut card, more);
    Card::read(&card).unwrap()
}

fn card(id: &str, more: Value) -> RegisterAgent {
    RegisterAgent::with_card(read_card(id, &more), EndpointGrant::Unchanged)
}

fn change(agent: &str, change: Value) -> RegisterAgent {
    let change = change.as_object().unwrap().clone();
    RegisterAgent { agent: agent.into(), announcement: Announcement::CardChange(change) }
}

fn shown(w: &World, agent: &str) -> Value {
    serde_json::to_value(Card::of(w.agent(agent))).unwrap()
}

#[test]
fn card_sets_the_profile_that_other_surfaces_show() {
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
fn repeated_card_appends_nothing() {
    let mut w = World::of(&["lead"]);
    let ken = card("ken", json!({ "limits": { "max_concurrency": 2 }, "x": 1 }));
    assert_eq!(w.does(&by("ken"), ken.clone()), ["agent.registered"]);
    assert_eq!(w.does(&by("ken"), ken), [""; 0]);
    assert_eq!(w.does(&by("ken"), card("ken", json!({ "x": 2 }))), ["agent.updated"]);
    assert_eq!(shown(&w, "ken"), json!({ "v": "clutch/0.1", "agent_id": "agent:ken", "capabilities": [], "x": 2 }));
}

#[test]
fn card_keeps_profile_fields_that_a_card_cannot_say() {
    let mut w = World::of(&["lead"]);
    let mut stated = profile(AgentRole::Specialist);
    stated.workspace_path = Some("/w".to_owned());
    stated.metadata.insert("k".to_owned(), json!(1));
    w.does(&by("ken"), RegisterAgent::with_profile("ken".into(), stated));
    w.does(&by("ken"), card("ken", json!({ "capabilities": [{ "id": "skill:research" }] })));
    let profile = &w.agent("ken").profile;
    assert_eq!((profile.tool.as_str(), profile.role), ("claude-code", AgentRole::Specialist));
    assert_eq!((profile.workspace_path.as_deref(), &profile.metadata["k"]), (Some("/w"), &json!(1)));
    assert_eq!(profile.capabilities, ["research"]);
}

#[test]
fn profile_keeps_card_fields_that_a_profile_cannot_say() {
    let mut w = World::of(&["lead"]);
    let research = json!({ "id": "skill:research", "version": "1.0", "tags": ["fintech"], "own": true });
    let said = json!({
        "display": { "name": "Ken", "desc": "finds out" }, "endpoints": { "clutch": { "url": "http://ken/" } },
        "capabilities": [research, { "id": "skill:law" }, { "id": "model:x" }],
        "limits": { "max_concurrency": 2, "per_day": 9 }, "security": { "sandbox": true },
        "meta": { "framework": "langgraph", "more": 1 },
    });
    w.does(&by("ken"), card("ken", said.clone()));
    let mut stated = profile(AgentRole::Worker);
    stated.capabilities = ["code", "research", "model:x"].map(str::to_owned).to_vec();
    let again = RegisterAgent::with_profile("ken".into(), stated);
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
fn card_of_offline_agent_returns_it() {
    let mut w = World::of(&["lead", "ken"]);
    w.goes_offline("ken");
    assert_eq!(w.does(&by("ken"), card("ken", json!({ "x": 1 }))), ["agent.updated", "agent.returned"]);
    w.goes_offline("ken");
    assert_eq!(w.does(&by("ken"), card("ken", json!({ "x": 1 }))), ["agent.returned"]);
}

#[test]
fn registration_after_leaving_starts_with_a_new_card() {
    let mut w = World::of(&["lead"]);
    w.does(&by("ken"), card("ken", json!({ "limits": { "max_concurrency": 2 } })));
    w.does(&by("ken"), LeaveTeam { agent: "ken".into() });
    assert_eq!(w.refuses(&by("ken"), change("ken", json!({}))), Code::AgentNotFound);
    w.joins("ken", AgentRole::Worker);
    assert_eq!(Card::of(w.agent("ken")).limits.max_concurrency, None);
}

#[test]
fn card_change_is_merged_into_the_card() {
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
fn card_change_that_leaves_no_valid_card_is_rejected() {
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
fn card_of_another_agent_or_without_credential_is_rejected() {
    let mut w = World::of(&["lead", "a", "b"]);
    assert_eq!(w.refuses(&by("b"), card("a", json!({}))), Code::Forbidden);
    assert_eq!(w.refuses(&by("b"), change("a", json!({ "x": 1 }))), Code::Forbidden);
    w.does(&with_token("a"), register("a", AgentRole::Worker));
    for caller in [by("a"), Caller::anonymous(), by("lead")] {
        assert_eq!(w.refuses(&caller, card("a", json!({}))), Code::CredentialRequired, "{:?}", caller.actor);
    }
    w.does(&with_token("a"), card("a", json!({})));
    let mut reserved = read_card("x", &json!({}));
    reserved.agent_id = "router".into();
    let mut long_name = read_card("x", &json!({}));
    long_name.display.name = Some("x".repeat(limit::NAME_BYTES + 1));
    for bad in [reserved, long_name] {
        assert_eq!(w.refuses(&anna(), RegisterAgent::with_card(bad, EndpointGrant::Unchanged)), Code::Invalid);
    }
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
    let allowing = |more: &Value| RegisterAgent::with_card(read_card("ken", more), EndpointGrant::ByPerson);
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

#[test]
fn seal_of_a_team_session_ends_when_the_agent_leaves() {
    use crate::kernel::session_key::{Session, TeamSession};
    use crate::testing::{runs_in, with_token};
    let mut w = runs_in("@pr-1", &["a", "b"]);
    let team = Some(TeamSession { team: "@pr-1".into(), generation: 1 });
    let session = |agent: &str| {
        let session = Session { agent: agent.into(), until: Timestamp(i64::MAX), team: team.clone(), sandbox: None };
        Caller { auth: Auth::Session, session: Some(session.into()), ..by(agent) }
    };
    for agent in ["a@pr-1", "b@pr-1"] {
        w.does(&session(agent), register(agent, AgentRole::Worker));
        assert_eq!(w.refuses(&by(agent), register(agent, AgentRole::Worker)), Code::CredentialRequired);
    }
    let on_its_socket = Caller { on_own_socket: true, ..by("a@pr-1") };
    assert_eq!(w.does(&on_its_socket, register("a@pr-1", AgentRole::Worker)), [""; 0], "its own socket vouches for it");
    assert!(w.agent("a@pr-1").has_credential, "and what it says there breaks no seal");
    let other = Caller { on_own_socket: true, ..by("b@pr-1") };
    assert_eq!(w.refuses(&other, crate::agents::LeaveTeam { agent: "a@pr-1".into() }), Code::Forbidden);
    // One that a token bound meanwhile stays so for good.
    w.does(&with_token("b@pr-1"), register("b@pr-1", AgentRole::Worker));
    for agent in ["a@pr-1", "b@pr-1"] {
        w.does(&anna(), crate::agents::LeaveTeam { agent: agent.into() });
    }
    assert_eq!(w.does(&by("a@pr-1"), register("a@pr-1", AgentRole::Worker))[0], "agent.registered");
    assert_eq!(w.refuses(&by("b@pr-1"), register("b@pr-1", AgentRole::Worker)), Code::CredentialRequired);
    assert_eq!(w.rebuilt(), *w.rows());
}
