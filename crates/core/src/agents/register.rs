//! An agent announces itself, for the first time or again.

use serde::{Deserialize, Serialize};

use super::{LeadChosen, LeadReason};
use crate::contexts;
use crate::kernel::caller::{Actor, Authority, Caller};
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, Seq, Timestamp};
use crate::kernel::instance::{Instance, check_name, plain};
use crate::kernel::limit;
use crate::kernel::outbound::AllowedHost;
use crate::kernel::rejection::Rejection;
use crate::model::agent::{Agent, AgentRole, AgentStatus, ClaimsWhenOffline, Membership, Profile, TrackRecord};
use crate::model::capabilities::{keys_of, same_keys};
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided, View};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, Reply, Subject};

/// Joins the team, or updates what the team knows of the agent and brings it back. What it holds stays its own.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RegisterAgent {
    pub id: AgentId,
    #[serde(flatten)]
    pub profile: Profile,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AgentRegistered {
    pub id: AgentId,
    #[serde(flatten)]
    pub profile: Profile,
    pub sealed: bool,
    /// The host and port that a person allowed messages for the agent to be posted to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_endpoint: Option<AllowedHost>,
}

/// An agent that was here already announced itself again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AgentUpdated {
    pub id: AgentId,
    #[serde(flatten)]
    pub profile: Profile,
    pub sealed: bool,
    /// The host and port that a person allowed messages for the agent to be posted to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_endpoint: Option<AllowedHost>,
}

/// Whether a key of the agent vouches for what is said in its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyProof {
    ByKey,
    ByNobody,
}

/// Whether messages may be posted to the endpoint on the card, wherever it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EndpointGrant {
    /// An earlier grant stays.
    Unchanged,
    /// A person allows the host and port of the card's endpoint.
    ByPerson,
}

impl EndpointGrant {
    fn host(self, caller: &Caller, profile: &Profile) -> Result<Option<AllowedHost>, Rejection> {
        if self == EndpointGrant::Unchanged {
            return Ok(None);
        }
        if caller.power != Authority::Person {
            return Err(Rejection::new(Code::Forbidden, "only a person may allow an endpoint")
                .hint("use 'rookery agents add', or send a person's token"));
        }
        let url = profile.card.as_ref().and_then(|card| Some(card.endpoints.clutch.as_ref()?.url.as_str()));
        let allowed = url.and_then(AllowedHost::of_url);
        allowed.map(Some).ok_or_else(|| {
            Rejection::new(Code::Invalid, "/endpoints/clutch/url: there is no endpoint to allow")
                .hint("name an http or https address, with a host name or an address in its usual form")
        })
    }
}

impl Command for RegisterAgent {
    const NAME: &'static str = "RegisterAgent";
    const SETTLES_MEMBERSHIP: bool = true;

    fn read_set(&self) -> ReadSet {
        let mut read_set = vec![Key::Agent(self.id.clone()).into(), Key::lead().into()];
        read_set.extend(contexts::read_set(&Instance::of(&self.id)));
        read_set
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision, Undecided> {
        self.announces(cx.view, cx.caller, KeyProof::ByNobody, EndpointGrant::Unchanged)
    }
}

impl RegisterAgent {
    pub(crate) fn announces(
        &self,
        view: &View,
        caller: &Caller,
        vouched: KeyProof,
        grant: EndpointGrant,
    ) -> Result<Decision, Undecided> {
        self.check()?;
        view.ensure_may_act_for(caller, &self.id)?;
        let sealed = caller.is_proven() && caller.itself() == Some(&self.id);
        let known = view.find_agent(&self.id)?;
        let profile = self.profile.beside(known)?;
        if vouched == KeyProof::ByNobody {
            may_set_keys(view, caller, known, &profile)?;
        }
        if let (Some(reach), Some(card)) = (caller.sandbox(), &profile.card) {
            reach.check_card(card, known.and_then(|agent| agent.profile.card.as_deref()))?;
        }
        let granted = grant.host(caller, &profile)?;
        let mut facts = Vec::new();
        match known {
            Some(agent) if !agent.has_left() => {
                let allowed_endpoint = granted.or_else(|| agent.allowed_endpoint.clone());
                let renewed = Agent {
                    profile,
                    has_credential: sealed || agent.has_credential,
                    allowed_endpoint,
                    ..agent.clone()
                };
                if renewed != *agent {
                    facts.push(AnyEvent::new(AgentUpdated {
                        id: self.id.clone(),
                        profile: renewed.profile.clone(),
                        sealed: renewed.has_credential,
                        allowed_endpoint: renewed.allowed_endpoint.clone(),
                    }));
                }
                if !agent.is_online() {
                    facts.extend(crate::agents::returning::comes_back(view, &renewed)?);
                }
            }
            _ => facts.push(AnyEvent::new(AgentRegistered {
                id: self.id.clone(),
                profile,
                sealed: sealed || known.is_some_and(|agent| agent.has_credential),
                allowed_endpoint: granted,
            })),
        }
        let instance = Instance::of(&self.id);
        facts.extend(contexts::documents(view, &instance, &view.team_context(&instance)?)?);
        facts.extend(self.lead(view)?);
        Ok(Decision::new(facts, Reply::Row(Key::Agent(self.id.clone()))))
    }

    fn check(&self) -> Result<(), Rejection> {
        check_name("id", self.id.as_str())?;
        let plain = plain(&self.id);
        if plain != self.id {
            return Err(Rejection::new(Code::Invalid, format!("id '{}' is written '{plain}'", self.id))
                .hint("an agent outside of all instances is called by its bare name"));
        }
        if Actor::is_reserved(self.id.as_str()) {
            return Err(Rejection::new(Code::Invalid, format!("id '{}' is reserved", self.id))
                .hint("choose another id, for example the tool's name and a number"));
        }
        let profile = &self.profile;
        limit::text("name", profile.name.as_deref().unwrap_or(""), limit::NAME_BYTES)?;
        limit::json("metadata", &profile.metadata, limit::METADATA_BYTES)?;
        if profile.tool.is_empty() {
            return Err(Rejection::new(Code::Invalid, "tool must not be empty"));
        }
        limit::text("tool", &profile.tool, limit::NAME_BYTES)?;
        limit::list("capabilities", &profile.capabilities)?;
        for capability in &profile.capabilities {
            limit::text("capabilities", capability, limit::NAME_BYTES)?;
        }
        limit::text("workspace_path", profile.workspace_path.as_deref().unwrap_or(""), limit::PATH_BYTES)
    }

    /// The first that asks for the lead gets it; who leads only because nobody asked yields to one that does.
    fn lead(&self, view: &View) -> Result<Option<AnyEvent>, Undecided> {
        let seat = view.lead()?;
        let read_set = self.profile.role == AgentRole::Lead;
        let reason = match seat.and_then(|lead| lead.holder.as_ref().map(|holder| (holder, lead.asked))) {
            None if read_set => LeadReason::Asked,
            None => LeadReason::First,
            Some((_, false)) if read_set => LeadReason::Asked,
            Some(_) => return Ok(None),
        };
        Ok(Some(LeadChosen::fact(Some(self.id.clone()), reason, seat)))
    }
}

/// Keys are what an agent is known by: they are replaced by whoever has one of them, or by the lead or a person, and both
/// more than by word.
fn may_set_keys(view: &View, caller: &Caller, known: Option<&Agent>, profile: &Profile) -> Result<(), Undecided> {
    let (old, new) = (keys_of(known), profile.card.as_ref().map_or(&[][..], |card| &card.security.keys));
    if old.is_empty() || same_keys(old, new) {
        return Ok(());
    }
    if caller.power == Authority::Person || (caller.is_proven() && view.has_authority(caller)?) {
        return Ok(());
    }
    Err(Rejection::new(Code::SignatureRequired, "an agent's keys are replaced only by whoever has one of them")
        .hint("send an 'agent.register' or 'agent.update' that is signed by one of its keys, or let the lead or a person do it, with a token")
        .into())
}

impl AgentRegistered {
    pub(super) fn joined(&self, old: Option<Agent>, seq: Seq, at: Timestamp) -> Agent {
        Agent {
            id: self.id.clone(),
            profile: self.profile.clone(),
            status: AgentStatus::Idle,
            membership: Membership::Here,
            current_task: None,
            joined_at: at,
            joined: seq,
            seen_at: at,
            has_credential: self.sealed,
            allowed_endpoint: self.allowed_endpoint.clone(),
            holding: old.as_ref().map_or(0, |agent| agent.holding),
            claims_when_offline: ClaimsWhenOffline::default(),
            said_goodbye: false,
            recent: old.as_ref().map_or_else(TrackRecord::default, |agent| agent.recent),
            last_assigned: old.as_ref().and_then(|agent| agent.last_assigned),
            paused: old.and_then(|agent| agent.paused),
        }
    }
}

impl Event for AgentRegistered {
    const KIND: &'static str = "agent.registered";

    fn subject(&self) -> Subject<'_> {
        Subject::agent(&self.id)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Agent(self.id.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.replace(self.id.clone(), |old: Option<Agent>| Some(self.joined(old, stamp.seq, stamp.at)));
    }
}

impl AgentUpdated {
    pub(super) fn update(&self, agent: &mut Agent, at: Timestamp) {
        agent.profile = self.profile.clone();
        agent.has_credential = self.sealed;
        agent.allowed_endpoint = self.allowed_endpoint.clone();
        agent.seen_at = at;
    }
}

impl Event for AgentUpdated {
    const KIND: &'static str = "agent.updated";

    fn subject(&self) -> Subject<'_> {
        Subject::agent(&self.id)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Agent(self.id.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.update(self.id.clone(), |agent: &mut Agent| self.update(agent, stamp.at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::{CurrentTask, LeaveTeam, SetAgentStatus};
    use crate::kernel::caller::Auth;
    use crate::testing::{World, anna, by, claim, claim_file, profile, register, with_token};

    #[test]
    fn the_first_agent_leads_until_one_asks_and_that_one_keeps_it() {
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
    fn a_lead_that_nobody_asked_can_ask_itself() {
        let mut w = World::of(&["a", "b"]);
        assert_eq!(w.joins("a", AgentRole::Lead), ["agent.updated", "lead.chosen"]);
        assert!(w.seat().unwrap().asked);
        assert_eq!(w.joins("b", AgentRole::Lead), ["agent.updated"]);
        assert_eq!(w.lead(), Some("a"));
    }

    #[test]
    fn announcing_again_keeps_what_the_agent_holds() {
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
    fn announcing_brings_an_offline_agent_back_with_one_decision_about_the_lead() {
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
    fn one_that_left_joins_anew() {
        let mut w = World::of(&["a", "b"]);
        w.does(&by("a"), LeaveTeam { agent: "a".into() });
        assert_eq!(w.joins("a", AgentRole::Worker), ["agent.registered"]);
        assert!(w.agent("a").is_online() && w.agent("a").joined > w.agent("b").joined);
    }

    #[test]
    fn ids_and_profiles_are_checked() {
        let mut w = World::default();
        let nobody = Caller::anonymous();
        for id in [
            "",
            "a b",
            "a\n",
            "@x",
            "x@",
            "a@b@c",
            "a@default",
            "system",
            "watcher",
            "router",
            "person:anna",
            "agent:a",
            "group:x",
        ] {
            assert_eq!(w.refuses(&nobody, register(id, AgentRole::Worker)), Code::Invalid, "{id:?}");
        }
        assert_eq!(w.refuses(&nobody, register(&"a".repeat(129), AgentRole::Worker)), Code::TooLarge);
        let with = |change: &dyn Fn(&mut Profile)| {
            let mut profile = profile(AgentRole::Worker);
            change(&mut profile);
            RegisterAgent { id: "a".into(), profile }
        };
        assert_eq!(w.refuses(&nobody, with(&|p| p.tool.clear())), Code::Invalid);
        assert_eq!(w.refuses(&nobody, with(&|p| p.tool = "x".repeat(257))), Code::TooLarge);
        assert_eq!(w.refuses(&nobody, with(&|p| p.capabilities = vec!["x".to_owned(); 1_001])), Code::TooLarge);
        assert_eq!(w.refuses(&nobody, with(&|p| p.workspace_path = Some("x".repeat(4_097)))), Code::TooLarge);
    }

    #[test]
    fn only_an_agent_itself_the_lead_and_people_announce_it() {
        let mut w = World::of(&["lead", "a", "b"]);
        assert_eq!(w.refuses(&by("b"), register("a", AgentRole::Specialist)), Code::Forbidden);
        for caller in [Caller::anonymous(), by("lead"), anna(), by("a")] {
            let role =
                if w.agent("a").profile.role == AgentRole::Worker { AgentRole::Specialist } else { AgentRole::Worker };
            assert_eq!(w.does(&caller, register("a", role)), ["agent.updated"], "{:?}", caller.actor);
        }
    }

    #[test]
    fn the_lead_by_word_commands_a_sealed_agent_but_does_not_act_as_it() {
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
    fn a_sealed_id_cannot_be_used_without_its_credential() {
        let mut w = World::of(&["lead"]);
        w.does(&with_token("a"), register("a", AgentRole::Worker));
        assert!(w.agent("a").has_credential);
        w.creates("t", &[]);
        w.does(&with_token("a"), claim("a", "t"));
        let idle =
            SetAgentStatus { agent: "a".into(), status: AgentStatus::Blocked, current_task: CurrentTask::AsBefore };
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
    fn an_observer_changes_nothing() {
        let mut w = World::of(&["a"]);
        let observer = Caller { power: crate::kernel::caller::Authority::Observer, ..by("a") };
        assert_eq!(w.refuses(&observer, register("a", AgentRole::Lead)), Code::Forbidden);
    }
}
