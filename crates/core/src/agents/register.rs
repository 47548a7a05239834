//! Registering an agent: it joins the team, returns to it, or changes what the team knows of it.
//!
//! One command serves every surface. They differ in what an agent states about itself ([`Announcement`]).

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::returning::comes_back;
use super::{LeadChosen, LeadReason};
use crate::contexts;
use crate::kernel::caller::{Actor, Authority, Caller};
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, Seq, Timestamp};
use crate::kernel::instance::{Instance, check_name};
use crate::kernel::limit;
use crate::kernel::outbound::AllowedHost;
use crate::kernel::rejection::Rejection;
use crate::model::agent::{
    Agent, AgentRole, AgentStatus, ClaimsWhenOffline, Membership, Metadata, Profile, StatedRole, TrackRecord,
};
use crate::model::capabilities::{Card, keys_of, same_keys};
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided, View};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

/// Adds an agent to the team, or updates it and brings it back. The agent keeps what it holds.
#[derive(Clone, PartialEq, Debug)]
pub struct RegisterAgent {
    pub agent: AgentId,
    pub announcement: Announcement,
}

/// The statement of an agent about itself. What it does not mention stays as the team knows it.
///
/// An agent that the team does not know can state something whole, or nothing. A change needs an agent that is here.
#[derive(Clone, PartialEq, Debug)]
pub enum Announcement {
    /// Nothing: the agent is there. A new one joins as a worker of which nothing else is known.
    Presence,
    /// The whole profile. A card that the team knows is brought in line with it.
    Profile(Profile),
    ProfileChange(ProfileChange),
    /// A profile of which parts may be left out. A new agent has nothing in these parts.
    Introduction(Introduction),
    /// The whole card. The parts of the profile that a card cannot say stay.
    Card {
        card: Box<Card>,
        endpoint: EndpointGrant,
    },
    /// Merged into the card: objects are merged, `null` removes a field, every other value replaces the old one (RFC 7396).
    CardChange(Map<String, Value>),
}

/// A change to a part of a profile. Two changes of different parts at the same time both take effect.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ProfileChange {
    pub workspace_path: Option<String>,
    /// Added to the known metadata; a key that is there already gets the new value.
    pub metadata: Metadata,
    /// The session of the agent's program.
    pub session_id: Option<String>,
}

/// The parts of a profile that an agent names when it joins or joins again.
#[derive(Clone, PartialEq, Debug)]
pub struct Introduction {
    pub tool: String,
    pub name: String,
    pub role: Option<StatedRole>,
    pub capabilities: Option<Vec<String>>,
    pub workspace_path: Option<String>,
    /// Takes the place of the known metadata.
    pub metadata: Option<Metadata>,
    /// Added to the metadata.
    pub added_metadata: Metadata,
}

impl Introduction {
    fn over(&self, mut profile: Profile) -> Profile {
        profile.tool.clone_from(&self.tool);
        profile.name = Some(self.name.clone());
        if let Some(StatedRole { role, name }) = self.role.clone() {
            (profile.role, profile.role_name) = (role, name);
        }
        if let Some(capabilities) = &self.capabilities {
            profile.capabilities.clone_from(capabilities);
        }
        if self.workspace_path.is_some() {
            profile.workspace_path.clone_from(&self.workspace_path);
        }
        if let Some(metadata) = &self.metadata {
            profile.metadata.clone_from(metadata);
        }
        profile.metadata.extend(self.added_metadata.clone());
        // The card of before is brought in line with this.
        profile.card = None;
        profile
    }
}

/// Whether messages may be posted to the endpoint on the card, wherever it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndpointGrant {
    /// An earlier grant stays.
    Unchanged,
    /// A person allows the host and port of the card's endpoint, also on this machine and in private networks.
    ByPerson,
}

/// How long an agent is bound to a credential.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seal {
    /// As long as it is in the team of its runner.
    Team,
    /// For good.
    Agent,
}

/// Whether the statement is signed by a key of the agent. Only code of this crate can say so, after it checked the
/// signature of an envelope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyProof {
    Signed,
    Unsigned,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AgentRegistered {
    pub id: AgentId,
    #[serde(flatten)]
    pub profile: Profile,
    pub sealed: bool,
    /// It is so by a session of a runner's team, for as long as the agent is in the team.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sealed_by_team: bool,
    /// The host and port that a person allowed messages for the agent to be posted to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_endpoint: Option<AllowedHost>,
}

/// A member of the team registered again with something new.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AgentUpdated {
    pub id: AgentId,
    #[serde(flatten)]
    pub profile: Profile,
    pub sealed: bool,
    /// It is so by a session of a runner's team, for as long as the agent is in the team.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sealed_by_team: bool,
    /// The host and port that a person allowed messages for the agent to be posted to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_endpoint: Option<AllowedHost>,
}

impl RegisterAgent {
    pub fn with_profile(agent: AgentId, profile: Profile) -> RegisterAgent {
        RegisterAgent { agent, announcement: Announcement::Profile(profile) }
    }

    pub fn with_card(card: Card, endpoint: EndpointGrant) -> RegisterAgent {
        let agent = card.agent_id.clone();
        RegisterAgent { agent, announcement: Announcement::Card { card: Box::new(card), endpoint } }
    }

    /// The whole card that the agent announces, if it announces one.
    pub fn card(&self) -> Option<&Card> {
        match &self.announcement {
            Announcement::Card { card, .. } => Some(card),
            Announcement::Presence
            | Announcement::Profile(_)
            | Announcement::ProfileChange(_)
            | Announcement::Introduction(_)
            | Announcement::CardChange(_) => None,
        }
    }

    /// Whether it adds an agent that the team does not know; otherwise it is rejected with `AGENT_NOT_FOUND`.
    pub fn can_add_agent(&self) -> bool {
        match &self.announcement {
            Announcement::Presence
            | Announcement::Profile(_)
            | Announcement::Introduction(_)
            | Announcement::Card { .. } => true,
            Announcement::ProfileChange(_) | Announcement::CardChange(_) => false,
        }
    }
}

impl Command for RegisterAgent {
    const NAME: &'static str = "RegisterAgent";
    const SETTLES_MEMBERSHIP: bool = true;

    type Reply = Agent;

    fn read_set(&self) -> ReadSet {
        let mut read_set = vec![Key::Agent(self.agent.clone()).into(), Key::lead().into()];
        read_set.extend(contexts::read_set(&Instance::of(&self.agent)));
        read_set
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Agent>, Undecided> {
        self.decide_with_proof(cx.view, cx.caller, KeyProof::Unsigned)
    }
}

impl RegisterAgent {
    /// The decision about a statement that came in an envelope, whose signature was checked.
    pub(crate) fn decide_with_proof(
        &self,
        view: &View,
        caller: &Caller,
        proof: KeyProof,
    ) -> Result<Decision<Agent>, Undecided> {
        let stated = self.stated_profile(view)?;
        check_agent_id(&self.agent)?;
        check_profile(&stated)?;
        view.ensure_may_act_for(caller, &self.agent)?;
        let known = view.find_agent(&self.agent)?;
        let seal = self.seal(caller, known);
        let profile = stated.beside(known)?;
        if proof == KeyProof::Unsigned {
            ensure_may_set_keys(view, caller, known, &profile)?;
        }
        if let (Some(reach), Some(card)) = (caller.sandbox(), &profile.card) {
            reach.check_card(card, known.and_then(|agent| agent.profile.card.as_deref()))?;
        }
        let granted = self.granted_endpoint(caller)?;
        let role = profile.role;
        let mut events = Vec::new();
        match known {
            Some(agent) if !agent.has_left() => {
                let allowed_endpoint = granted.or_else(|| agent.allowed_endpoint.clone());
                let renewed = Agent {
                    profile,
                    has_credential: seal.is_some(),
                    credential_ends_with_team: seal == Some(Seal::Team),
                    allowed_endpoint,
                    ..agent.clone()
                };
                if renewed != *agent {
                    events.push(AnyEvent::new(AgentUpdated {
                        id: self.agent.clone(),
                        profile: renewed.profile.clone(),
                        sealed: renewed.has_credential,
                        sealed_by_team: renewed.credential_ends_with_team,
                        allowed_endpoint: renewed.allowed_endpoint.clone(),
                    }));
                }
                if !agent.is_online() {
                    events.extend(comes_back(view, &renewed)?);
                }
            }
            _ => events.push(AnyEvent::new(AgentRegistered {
                id: self.agent.clone(),
                profile,
                sealed: seal.is_some(),
                sealed_by_team: seal == Some(Seal::Team),
                allowed_endpoint: granted,
            })),
        }
        let instance = Instance::of(&self.agent);
        events.extend(contexts::documents(view, &instance, &view.team_context(&instance)?)?);
        events.extend(self.choose_lead(view, role)?);
        Ok(Decision::new(events, ReplySource::row(self.agent.clone())))
    }

    /// The credential that the agent is bound to from now on. A proven call binds it; one that a token or a bridge bound
    /// stays so for good.
    fn seal(&self, caller: &Caller, known: Option<&Agent>) -> Option<Seal> {
        let before = known.filter(|agent| agent.has_credential).map(|agent| match agent.credential_ends_with_team {
            true => Seal::Team,
            false => Seal::Agent,
        });
        let is_of_team = caller.session.as_ref().is_some_and(|session| session.team.is_some());
        match before {
            before if !caller.is_proven() || caller.itself() != Some(&self.agent) => before,
            None | Some(Seal::Team) if is_of_team => Some(Seal::Team),
            _ => Some(Seal::Agent),
        }
    }

    /// The profile after this announcement, with the parts that it does not mention.
    fn stated_profile(&self, view: &View) -> Result<Profile, Undecided> {
        match &self.announcement {
            Announcement::Presence => {
                Ok(self.member(view)?.map_or_else(default_profile, |known| known.profile.clone()))
            }
            Announcement::Profile(profile) => Ok(profile.clone()),
            Announcement::Introduction(introduction) => {
                let known = self.member(view)?.map(|known| known.profile.clone());
                Ok(introduction.over(known.unwrap_or_else(default_profile)))
            }
            Announcement::ProfileChange(change) => {
                let mut profile = view.agent(&self.agent)?.profile.clone();
                profile.workspace_path = change.workspace_path.clone().or(profile.workspace_path);
                profile.metadata.extend(change.metadata.clone());
                if change.session_id.is_some() {
                    profile.session_id.clone_from(&change.session_id);
                }
                Ok(profile)
            }
            Announcement::Card { card, .. } => {
                let card = self.read_card(&serde_json::to_value(card).unwrap_or_default())?;
                Ok(card.profile(self.member(view)?.map(|known| &known.profile)))
            }
            Announcement::CardChange(change) => {
                let known = view.agent(&self.agent)?;
                let mut changed = serde_json::to_value(Card::of(known)).unwrap_or_default();
                merge(&mut changed, &Value::Object(change.clone()));
                Ok(self.read_card(&changed)?.profile(Some(&known.profile)))
            }
        }
    }

    /// The agent, if it is in the team. One that left starts with a new profile.
    fn member<'v>(&self, view: &'v View) -> Result<Option<&'v Agent>, Undecided> {
        Ok(view.find_agent(&self.agent)?.filter(|agent| !agent.has_left()))
    }

    /// Checks a card by the rules for one that comes in, whichever way this one was made.
    fn read_card(&self, card: &Value) -> Result<Card, Rejection> {
        let card = Card::read(card).map_err(|faults| {
            Rejection::new(Code::Invalid, faults.to_string())
                .hint("'rookery schema card' describes what a card can say")
        })?;
        if card.agent_id != self.agent {
            return Err(Rejection::new(Code::Invalid, "/agent_id: a change cannot give an agent another id"));
        }
        Ok(card)
    }

    fn granted_endpoint(&self, caller: &Caller) -> Result<Option<AllowedHost>, Rejection> {
        let Announcement::Card { card, endpoint: EndpointGrant::ByPerson } = &self.announcement else {
            return Ok(None);
        };
        if caller.power != Authority::Person {
            return Err(Rejection::new(Code::Forbidden, "only a person may allow an endpoint")
                .hint("use 'rookery agents add', or send a person's token"));
        }
        let url = card.endpoints.clutch.as_ref().map(|endpoint| endpoint.url.as_str());
        url.and_then(AllowedHost::of_url).map(Some).ok_or_else(|| {
            Rejection::new(Code::Invalid, "/endpoints/clutch/url: there is no endpoint to allow")
                .hint("name an http or https address, with a host name or an address in its usual form")
        })
    }

    /// The first agent that asks for the lead gets it. An agent that leads without having asked yields to one that asks.
    fn choose_lead(&self, view: &View, role: AgentRole) -> Result<Option<AnyEvent>, Undecided> {
        let seat = view.lead()?;
        let asks = role == AgentRole::Lead;
        let reason = match seat.and_then(|lead| lead.holder.as_ref().map(|holder| (holder, lead.asked))) {
            None if asks => LeadReason::Asked,
            None => LeadReason::First,
            Some((_, false)) if asks => LeadReason::Asked,
            Some(_) => return Ok(None),
        };
        Ok(Some(LeadChosen::fact(Some(self.agent.clone()), reason, seat)))
    }
}

/// The profile of an agent that stated nothing.
fn default_profile() -> Profile {
    Profile {
        tool: "custom".to_owned(),
        role: AgentRole::Worker,
        capabilities: vec![],
        name: None,
        workspace_path: None,
        metadata: Metadata::new(),
        card: None,
        role_name: None,
        session_id: None,
    }
}

fn check_agent_id(agent: &AgentId) -> Result<(), Rejection> {
    check_name("id", agent.as_str())?;
    if Actor::is_reserved(agent.as_str()) {
        return Err(Rejection::new(Code::Invalid, format!("id '{agent}' is reserved"))
            .hint("choose another id, for example the tool's name and a number"));
    }
    Ok(())
}

fn check_profile(profile: &Profile) -> Result<(), Rejection> {
    limit::text("name", profile.name.as_deref().unwrap_or(""), limit::NAME_BYTES)?;
    limit::text("role", profile.role_name.as_deref().unwrap_or(""), limit::NAME_BYTES)?;
    limit::text("session_id", profile.session_id.as_deref().unwrap_or(""), limit::NAME_BYTES)?;
    if profile.role_name.as_deref() == Some("") {
        return Err(Rejection::new(Code::Invalid, "role must not be empty"));
    }
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

/// Rejects a change of an agent's keys, which prove who it is, unless the caller is a person or the lead with a credential.
/// A statement that is signed by one of the keys does not get here.
fn ensure_may_set_keys(
    view: &View,
    caller: &Caller,
    known: Option<&Agent>,
    profile: &Profile,
) -> Result<(), Undecided> {
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
            credential_ends_with_team: self.sealed_by_team,
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
        agent.credential_ends_with_team = self.sealed_by_team;
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
