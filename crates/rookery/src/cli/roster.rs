//! Who runs: the agents of the teams that runners run, and what a name on the command line means there.

use rookery_client::teams::{Member, Team};
use rookery_client::{Client, ClientError};
use rookery_core::kernel::instance::{check_name, namesake};
use rookery_core::{Actor, AgentId, Instance};

use super::failure::Failure;

/// How many names are offered to somebody who missed one.
const OFFERED: usize = 10;

/// What a name on the command line means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// `name`, `name@instance`; a bare name may mean the member of `default`, see [`Meant`]
    Agent(AgentId),
    /// `@instance`
    Instance(Instance),
}

impl Target {
    pub fn parse(text: &str) -> Result<Target, Failure> {
        let wrong = |why: &str| {
            Failure::usage(format!("'{text}' is not the name of an agent or an instance: {why}"))
                .hint("an agent is called reviewer or reviewer@pr-123, an instance @pr-123")
        };
        if let Some(instance) = text.strip_prefix('@') {
            check_name("name", &format!("x@{instance}")).map_err(|refusal| wrong(&refusal.message))?;
            return Ok(Target::Instance(Instance::new(instance)));
        }
        check_name("name", text).map_err(|refusal| wrong(&refusal.message))?;
        if Actor::is_reserved(text) {
            return Err(wrong("the name is reserved"));
        }
        Ok(Target::Agent(AgentId::from(text)))
    }
}

/// The teams that runners run, as the log knows it.
#[derive(Debug)]
pub struct Roster {
    pub teams: Vec<Team>,
}

impl Roster {
    pub async fn read(client: &Client) -> Result<Roster, ClientError> {
        Ok(Roster { teams: client.live_teams().await? })
    }

    pub fn agents(&self) -> impl Iterator<Item = (&Team, &Member)> {
        self.teams.iter().flat_map(|team| team.agents.iter().map(move |member| (team, member)))
    }

    pub fn find(&self, agent: &AgentId) -> Option<(&Team, &Member)> {
        self.agents().find(|(_, member)| member.id == agent.as_str())
    }

    /// The teams whose agents are in an instance. A standalone agent of `default` is in none.
    pub fn in_instance(&self, instance: &Instance) -> impl Iterator<Item = &Team> {
        let is_member = |member: &Member| namesake(&AgentId::from(member.id.as_str())).is_none();
        self.teams.iter().filter(move |team| team.instance == instance.name() && team.agents.iter().all(is_member))
    }

    /// The running agent that a name means.
    pub fn meant(&self, agent: &AgentId) -> Option<Meant> {
        Meant::of(agent, |id| self.find(id).is_some())
    }

    /// The agents that run. A stopped member stays in its team until that ends.
    fn running(&self) -> impl Iterator<Item = &Member> {
        self.agents().map(|(_, member)| member).filter(|member| member.state != "stopped")
    }

    /// The agent that is meant where none is named: the only one that runs.
    pub fn only(&self) -> Result<AgentId, Missing> {
        let mut running = self.running();
        match (running.next(), running.next()) {
            (Some(member), None) => Ok(AgentId::from(member.id.as_str())),
            (None, _) => Err(Missing::Nobody),
            (Some(_), Some(_)) => Err(Missing::Several(self.names())),
        }
    }

    /// Those that run, in one piece.
    pub fn names(&self) -> String {
        let all: Vec<&str> = self.running().map(|member| member.id.as_str()).collect();
        let shown = all.iter().take(OFFERED).copied().collect::<Vec<_>>().join(", ");
        match all.len().checked_sub(OFFERED) {
            Some(more) if more > 0 => format!("{shown} and {more} more"),
            _ => shown,
        }
    }
}

/// The agent that a name on the command line means: the one with this id, else the member of `default` with this name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Meant {
    pub agent: AgentId,
    /// The member of `default` with the same name, if the agent is a standalone one beside it.
    pub member: Option<AgentId>,
}

impl Meant {
    fn of(agent: &AgentId, is_known: impl Fn(&AgentId) -> bool) -> Option<Meant> {
        let member = namesake(agent).filter(&is_known);
        match is_known(agent) {
            true => Some(Meant { agent: agent.clone(), member }),
            false => member.map(|agent| Meant { agent, member: None }),
        }
    }

    /// Looks among the agents of the project, first those that take part, then those that have left.
    pub async fn read(client: &Client, agent: &AgentId, left: Left) -> Result<Option<Meant>, ClientError> {
        let mut meant = Meant::among(client, agent, &[]).await?;
        if meant.is_none() && left == Left::Included {
            meant = Meant::among(client, agent, &[("include", "left".to_owned())]).await?;
        }
        Ok(meant)
    }

    async fn among(client: &Client, agent: &AgentId, query: &[(&str, String)]) -> Result<Option<Meant>, ClientError> {
        let mut known = Vec::new();
        for id in [Some(agent.clone()), namesake(agent)].into_iter().flatten() {
            match client.get(&["agents", id.as_str()], query).await {
                Ok(_) => known.push(id),
                Err(error) if error.status() == Some(404) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Meant::of(agent, |id| known.contains(id)))
    }

    /// The rule by which it was chosen, where two have the name.
    pub fn note(&self) -> Option<String> {
        let member = self.member.as_ref()?;
        Some(format!("{} is the standalone agent; the one of the team is {member}", self.agent))
    }
}

/// The treatment of agents that have left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    Ignored,
    Included,
}

/// Why no agent is meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Missing {
    Nobody,
    Several(String),
}

impl From<Missing> for Failure {
    fn from(missing: Missing) -> Failure {
        match missing {
            Missing::Nobody => Failure::new("no agent runs")
                .hint("start some with `rookery start FILE`, or one with `rookery new NAME`; --to names one that does not run"),
            Missing::Several(names) => {
                Failure::usage(format!("several agents run: {names}")).hint("say which one with --to")
            }
        }
    }
}

/// The agent of `--to`, or the only one that runs.
pub fn recipient(roster: &Roster, to: Option<&str>) -> Result<AgentId, Failure> {
    match to.map(Target::parse).transpose()? {
        Some(Target::Agent(agent)) => Ok(agent),
        Some(Target::Instance(instance)) => {
            let members: Vec<&str> =
                roster.in_instance(&instance).flat_map(|team| &team.agents).map(|member| member.id.as_str()).collect();
            let failure = Failure::usage(format!("@{instance} is an instance, not an agent"));
            Err(match members.as_slice() {
                [] => failure.hint("--to names one agent, such as reviewer@pr-123"),
                members => failure.hint(format!("there are {}", members.join(", "))),
            })
        }
        None => Ok(roster.only()?),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn roster(teams: &[(&str, &str, &[&str])]) -> Roster {
        let agents = |ids: &[&str]| -> Vec<Value> { ids.iter().map(|id| json!({"name": id, "id": id})).collect() };
        let team = |(id, instance, members): &(&str, &str, &[&str])| {
            let team =
                json!({"id": id, "instance": instance, "generation": 1, "live": true, "agents": agents(members)});
            serde_json::from_value(team).unwrap()
        };
        Roster { teams: teams.iter().map(team).collect() }
    }

    #[test]
    fn a_target_is_an_agent_or_an_instance() {
        let agent = |id: &str| Target::Agent(id.into());
        for (text, target) in [
            ("reviewer", agent("reviewer")),
            ("reviewer@default", agent("reviewer@default")),
            ("reviewer@pr-123", agent("reviewer@pr-123")),
            ("@pr-123", Target::Instance(Instance::new("pr-123"))),
        ] {
            assert_eq!(Target::parse(text).unwrap(), target);
        }
        for wrong in ["", "@", "a b", "a@", "system", "person:anna"] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_only_agent_is_meant_where_none_is_named() {
        let one = roster(&[("helper", "default", &["helper"])]);
        assert_eq!(one.only(), Ok("helper".into()));
        assert_eq!(roster(&[]).only(), Err(Missing::Nobody));
        let two = roster(&[("helper", "default", &["helper"]), ("@pr-1", "pr-1", &["coder@pr-1"])]);
        assert_eq!(two.only(), Err(Missing::Several("helper, coder@pr-1".into())));
        assert_eq!(recipient(&two, Some("coder@pr-1")).unwrap(), "coder@pr-1".into());
        let error = recipient(&two, Some("@pr-1")).unwrap_err();
        assert_eq!(error.to_string(), "@pr-1 is an instance, not an agent");
    }

    #[test]
    fn stopped_member_is_not_counted_among_those_that_run() {
        let mut pair = roster(&[("@pr-1", "pr-1", &["coder@pr-1", "reviewer@pr-1"])]);
        assert_eq!(pair.only(), Err(Missing::Several("coder@pr-1, reviewer@pr-1".into())));
        pair.teams[0].agents[1].state = "stopped".into();
        assert_eq!(pair.only(), Ok("coder@pr-1".into()));
        assert_eq!(pair.names(), "coder@pr-1");
        pair.teams[0].agents[0].state = "stopped".into();
        assert_eq!(pair.only(), Err(Missing::Nobody));
    }

    #[test]
    fn bare_name_means_standalone_agent_else_member_of_default() {
        let team = ("@default", "default", &["coder@default", "reviewer@default"][..]);
        let both = roster(&[("coder", "default", &["coder"]), team]);
        let meant = |text: &str| both.meant(&text.into()).map(|meant| (meant.agent.to_string(), meant.note()));
        let note = "coder is the standalone agent; the one of the team is coder@default".to_owned();
        assert_eq!(meant("coder"), Some(("coder".to_owned(), Some(note))));
        for (text, id) in [("coder@default", "coder@default"), ("reviewer", "reviewer@default")] {
            assert_eq!(meant(text), Some((id.to_owned(), None)), "{text}");
        }
        for other in ["tester", "coder@pr-1"] {
            assert_eq!(meant(other), None, "{other}");
        }
        let found: Vec<&str> = both.in_instance(&Instance::default()).map(|team| team.id.as_str()).collect();
        assert_eq!(found, ["@default"], "a standalone agent is not in the team's instance");
    }

    #[test]
    fn an_instance_has_its_team_and_those_that_run_alone_in_it() {
        let roster =
            roster(&[("@pr-1", "pr-1", &["a@pr-1"]), ("b@pr-1", "pr-1", &["b@pr-1"]), ("c", "default", &["c"])]);
        let found: Vec<&str> = roster.in_instance(&Instance::new("pr-1")).map(|team| team.id.as_str()).collect();
        assert_eq!(found, ["@pr-1", "b@pr-1"]);
        assert_eq!(roster.find(&"c".into()).map(|(team, _)| team.id.as_str()), Some("c"));
    }
}
