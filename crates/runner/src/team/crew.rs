//! What the loops of a team's agents share with each other and with its supervisor.

use std::collections::BTreeMap;

use rookery_client::teams::Mode;
use rookery_client::{Client, ClientError, Tools};
use rookery_core::{AgentId, TeamId};
use tokio_util::sync::CancellationToken;

use super::board::Board;
use super::clock::Clock;
use super::decide::loops::Sender;
use super::ledger::Ledger;
use super::report::{Level, Report, Reports};
use super::turn::SHUTDOWN_GRACE;
use crate::file::Ready;
use crate::turn::{InboxDepth, Message};

#[derive(Debug)]
pub(super) struct Crew {
    /// Speaks as the person whose project it is, and waits for a daemon that is away.
    pub(super) client: Client,
    pub(super) ready: Ready,
    pub(super) mode: Mode,
    pub(super) team: TeamId,
    pub(super) generation: u64,
    /// The agents by their ids, with the names that they have in the team.
    pub(super) names: BTreeMap<AgentId, String>,
    pub(super) board: Board,
    pub(super) ledger: Ledger,
    pub(super) reports: Reports,
    pub(super) clock: Clock,
    /// Ends every turn and every loop.
    pub(super) stop: CancellationToken,
}

impl Crew {
    /// Who sent a message, by the name that it has in an inbox of the team.
    pub(super) fn sender<'a>(&'a self, from: &'a str) -> Sender<'a> {
        let is_member = self.names.values().any(|name| name == from);
        if is_member { Sender::Member(from) } else { Sender::Outside }
    }

    /// What waits for an agent and may still wake it.
    pub(super) async fn unread(
        &self,
        name: &str,
        tools: &Tools,
        reach: InboxDepth,
    ) -> Result<Vec<Message>, ClientError> {
        let mut all = Message::waiting(tools, reach).await?;
        all.retain(|message| !self.ledger.is_given_up(name, &message.entry.id));
        Ok(all)
    }

    /// Why an agent is not to be woken, if somebody paused it.
    pub(super) async fn paused(&self, name: &str, id: &AgentId) -> Result<Option<String>, ClientError> {
        if !self.board.may_be_paused(name) {
            return Ok(None);
        }
        let agent = self.client.get(&["agents", id.as_str()], &[("include", "left".to_owned())]).await?;
        let Some(by) = agent["paused"]["by"].as_str() else {
            self.board.is_not_paused(name);
            return Ok(None);
        };
        let reason = agent["paused"]["reason"].as_str().map(|reason| format!(": {reason}")).unwrap_or_default();
        Ok(Some(format!("paused by {by}{reason}")))
    }

    /// Whether a schedule may wake an agent now. It keeps no run alive: there it does so only while others are at it.
    pub(super) fn may_ring(&self, name: &str) -> bool {
        self.mode != Mode::Run || self.board.is_busy_without(name)
    }

    /// The agent stands otherwise now.
    pub(super) fn tell_standing(&self, name: &str) {
        self.reports.tell(Report::Changed(self.board.standing(name)));
    }

    /// Tells people on the screen and in the channel that something went wrong, by which the team fails.
    pub(super) async fn fails_by(&self, agent: Option<&str>, reason: &str) {
        self.ledger.fail(reason);
        self.reports.note(agent, Level::Error, reason);
        // With the daemon away nobody waits for the channel: the end of the team says it too.
        match tokio::time::timeout(SHUTDOWN_GRACE, self.client.say_to_team(self.team.as_str(), reason)).await {
            Ok(Ok(())) | Err(_) => {}
            Ok(Err(error)) => {
                self.reports.note(agent, Level::Warning, format!("the channel could not be told: {error}"));
            }
        }
    }
}
