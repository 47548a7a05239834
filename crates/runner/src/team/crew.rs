//! State shared by the loops of a team's agents and its supervisor.

use std::collections::BTreeMap;

use rookery_client::teams::Mode;
use rookery_client::{Client, ClientError, Tools};
use rookery_core::{AgentId, TeamId};
use tokio_util::sync::CancellationToken;

use super::board::Board;
use super::clock::TeamClock;
use super::decide::loops::MessageSender;
use super::ledger::Ledger;
use super::report::{Level, Report, Reports};
use super::turn::SHUTDOWN_GRACE;
use crate::file::Ready;
use crate::turn::{InboxDepth, TurnMessage};

#[derive(Debug)]
pub(super) struct Crew {
    /// A client that acts as the project's person, and waits while the daemon is unavailable.
    pub(super) client: Client,
    pub(super) ready: Ready,
    pub(super) mode: Mode,
    pub(super) team: TeamId,
    pub(super) generation: u64,
    /// The names of the agents in the team, by id.
    pub(super) names: BTreeMap<AgentId, String>,
    pub(super) board: Board,
    pub(super) ledger: Ledger,
    pub(super) reports: Reports,
    pub(super) clock: TeamClock,
    /// Cancels every turn and every loop.
    pub(super) stop: CancellationToken,
}

impl Crew {
    /// Classifies the sender of a message by its name in an inbox of the team.
    pub(super) fn sender<'a>(&'a self, from: &'a str) -> MessageSender<'a> {
        let is_member = self.names.values().any(|name| name == from);
        if is_member { MessageSender::Member(from) } else { MessageSender::Outside }
    }

    /// Loads an agent's unread messages, without those that were given up.
    pub(super) async fn unread(
        &self,
        name: &str,
        tools: &Tools,
        depth: InboxDepth,
    ) -> Result<Vec<TurnMessage>, ClientError> {
        let mut all = TurnMessage::load_unread(tools, depth).await?;
        all.retain(|message| !self.ledger.is_given_up(name, &message.entry.id));
        Ok(all)
    }

    /// Returns why an agent is paused, if it is.
    pub(super) async fn pause_reason(&self, name: &str, id: &AgentId) -> Result<Option<String>, ClientError> {
        if !self.board.may_be_paused(name) {
            return Ok(None);
        }
        let agent = self.client.get(&["agents", id.as_str()], &[("include", "left".to_owned())]).await?;
        let Some(by) = agent["paused"]["by"].as_str() else {
            self.board.mark_not_paused(name);
            return Ok(None);
        };
        let reason = agent["paused"]["reason"].as_str().map(|reason| format!(": {reason}")).unwrap_or_default();
        Ok(Some(format!("paused by {by}{reason}")))
    }

    /// Whether a schedule may wake an agent now. In a run only while other agents are busy, so that a schedule does not keep a
    /// run alive.
    pub(super) fn may_wake_on_schedule(&self, name: &str) -> bool {
        self.mode != Mode::Run || self.board.has_other_busy(name)
    }

    /// Reports the new status of an agent.
    pub(super) fn report_status(&self, name: &str) {
        self.reports.send(Report::Changed(self.board.status(name)));
    }

    /// Fails the team, and reports the reason on the screen and in the channel.
    pub(super) async fn fail_with_note(&self, agent: Option<&str>, reason: &str) {
        self.ledger.fail(reason);
        self.reports.note(agent, Level::Error, reason);
        // Does not wait for an unavailable daemon, since the end of the team gives the reason too.
        match tokio::time::timeout(SHUTDOWN_GRACE, self.client.say_to_team(self.team.as_str(), reason)).await {
            Ok(Ok(())) | Err(_) => {}
            Ok(Err(error)) => {
                self.reports.note(agent, Level::Warning, format!("could not post to the channel: {error}"));
            }
        }
    }
}
