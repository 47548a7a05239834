//! Supervises a running team until no agent has work left, a limit is reached, the team is stopped, or its time is up. Then
//! shuts the team down in order and summarizes the run.

use std::sync::Arc;
use std::time::Duration;

use rookery_client::teams::{Mode, TeamEndOutcome};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::begin::Begun;
use super::crew::Crew;
use super::decide::quiet::{QuietCheck, QuietDetector};
use super::interrupt::{Interrupt, InterruptKind};
use super::report::{Level, Report, Reports, RunOutcome};
use super::summary::{self, RunSummary};
use super::turn::SHUTDOWN_GRACE;
use super::watch::{self, WatchEnd};
use super::{Order, TeamError, seats};
use crate::file::show_duration;
use crate::turn::InboxDepth;

/// Time for the agents to end when the team does. Backends end their programs sooner.
const ENDING: Duration = Duration::from_secs(60);

/// The outcome of a team, with a reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RunConclusion {
    pub(super) outcome: RunOutcome,
    pub(super) reason: Option<String>,
}

impl RunConclusion {
    fn by(outcome: RunOutcome, reason: impl Into<String>) -> RunConclusion {
        RunConclusion { outcome, reason: Some(reason.into()) }
    }
}

pub(super) async fn supervise(
    order: Order,
    begun: Begun,
    reports: Reports,
    interrupt: Interrupt,
) -> Result<RunSummary, TeamError> {
    let Begun { crew, members, position, held, resumed } = begun;
    let mut loops = JoinSet::new();
    for member in members {
        loops.spawn(member.run());
    }
    let stop_request = Arc::new(Notify::new());
    let follower = crew.client.follow(vec![], position, Duration::MAX);
    let mut daemon = JoinSet::new();
    daemon.spawn(heartbeats(Arc::clone(&crew)));
    daemon.spawn(following(Arc::clone(&crew), follower, Arc::clone(&stop_request)));
    daemon.spawn(watching(Arc::clone(&crew), stop_request));
    let team = Supervisor { order: &order, crew: &crew, interrupt: &interrupt };
    let conclusion = team.run(&mut loops, &mut daemon).await;
    crew.stop.cancel();
    let ended = settle(&mut loops, &conclusion, &reports).await;
    daemon.shutdown().await;
    let error = match (conclusion, ended) {
        (Ok(conclusion), Ok(())) => {
            let summary = team.close(conclusion, resumed).await;
            drop(held);
            return Ok(summary);
        }
        (Err(error), _) | (Ok(_), Err(error)) => error,
    };
    // A team that another process runs must not be ended here.
    if !matches!(error, TeamError::Superseded { .. }) {
        team.close(RunConclusion::by(RunOutcome::Failed, error.to_string()), resumed).await;
    }
    Err(error)
}

/// The result of a background task that talks to the daemon.
type DaemonTaskResult = Result<WatchEnd, TeamError>;

async fn heartbeats(crew: Arc<Crew>) -> DaemonTaskResult {
    watch::send_heartbeats(crew).await;
    Ok(WatchEnd::Superseded)
}

async fn following(
    crew: Arc<Crew>,
    follower: rookery_client::EventFollower,
    stop_request: Arc<Notify>,
) -> DaemonTaskResult {
    watch::follow(crew, follower, stop_request).await?;
    // Without a stream, polling still works, with more delay.
    std::future::pending().await
}

async fn watching(crew: Arc<Crew>, stop_request: Arc<Notify>) -> DaemonTaskResult {
    watch::watch(crew, stop_request).await
}

/// Waits for the agents' loops, which have been asked to end. Returns their first error, if it is the reason why the team
/// ended.
async fn settle(
    loops: &mut JoinSet<Result<(), TeamError>>,
    conclusion: &Result<RunConclusion, TeamError>,
    reports: &Reports,
) -> Result<(), TeamError> {
    let mut first = Ok(());
    let all = async {
        while let Some(ended) = loops.join_next().await {
            if let Ok(Err(error)) = ended
                && first.is_ok()
            {
                first = Err(error);
            }
        }
    };
    if tokio::time::timeout(ENDING, all).await.is_err() {
        reports.note(None, Level::Warning, "some agents did not stop in time; they end with this process");
    }
    // When the team was asked to end, later errors do not matter.
    match conclusion {
        Ok(conclusion) if conclusion.outcome != RunOutcome::Completed => Ok(()),
        _ => first,
    }
}

struct Supervisor<'a> {
    order: &'a Order,
    crew: &'a Arc<Crew>,
    interrupt: &'a Interrupt,
}

impl Supervisor<'_> {
    /// Returns when the team has no work left or must end.
    async fn run(
        &self,
        loops: &mut JoinSet<Result<(), TeamError>>,
        daemon: &mut JoinSet<DaemonTaskResult>,
    ) -> Result<RunConclusion, TeamError> {
        let mut quiet = QuietDetector::default();
        loop {
            let wait = match self.assess(&mut quiet).await? {
                Assessment::Ended(conclusion) => return Ok(conclusion),
                Assessment::Wait(time) => time,
            };
            tokio::select! {
                biased;
                ending = self.interrupt.wait() => return Ok(RunConclusion { outcome: ended_by(ending), reason: None }),
                ended = daemon.join_next() => match ended {
                    Some(Ok(Ok(WatchEnd::StopRequested(reason)))) => return Ok(RunConclusion { outcome: RunOutcome::Stopped, reason }),
                    Some(Ok(Ok(WatchEnd::Superseded))) => {
                        return Err(TeamError::Superseded { team: self.crew.team.clone() });
                    }
                    Some(Ok(Err(error))) => return Err(error),
                    // The panic of a task was printed; the other tasks do not need it.
                    Some(Err(_)) | None => {}
                },
                ended = loops.join_next(), if !loops.is_empty() => {
                    if let Some(Ok(Err(error))) = ended {
                        return Err(error);
                    }
                }
                () = self.crew.board.wait_for_change() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Decides whether the team has ended, or how long to wait before the next assessment.
    async fn assess(&self, quiet: &mut QuietDetector) -> Result<Assessment, TeamError> {
        let (now, activity) = (self.crew.clock.now(), self.crew.board.activity());
        let left = self.order.timeout.map(|timeout| timeout.saturating_sub(now));
        if let (Some(Duration::ZERO), Some(timeout)) = (left, self.order.timeout) {
            let reason = format!("it took longer than {} (--timeout)", show_duration(timeout));
            self.crew.fail_with_note(None, &reason).await;
            return Ok(Assessment::Ended(RunConclusion::by(RunOutcome::Failed, reason)));
        }
        if activity.all_stopped {
            return Ok(Assessment::Ended(RunConclusion::by(RunOutcome::Stopped, "all of its agents were stopped")));
        }
        let stays = self.order.mode != Mode::Run;
        let (reached, until) = (self.crew.ledger.limit_reached(now), self.crew.ledger.runtime_left(now));
        if stays && (reached.is_none() || activity.working) {
            return Ok(Assessment::Wait(left.unwrap_or(Duration::MAX).min(until)));
        }
        if let Some(reached) = reached.filter(|_| stays) {
            self.crew.ledger.fail(format!("no further turn begins: {reached}"));
        }
        let wait = match quiet.check(now, activity.busy, activity.changes) {
            QuietCheck::Busy => Duration::MAX,
            QuietCheck::Settling(time) => time,
            QuietCheck::CheckInboxes if self.is_quiet(activity.changes).await? => {
                return Ok(Assessment::Ended(self.conclusion()));
            }
            QuietCheck::CheckInboxes => {
                quiet.restart();
                Duration::ZERO
            }
        };
        Ok(Assessment::Wait(left.map_or(wait, |left| left.min(wait))))
    }

    /// Checks all inboxes once more.
    async fn is_quiet(&self, changes: u64) -> Result<bool, TeamError> {
        let available = self.crew.board.available();
        let ids: Vec<_> = self.crew.names.iter().filter(|(_, name)| available.contains(name)).collect();
        for (id, name) in ids {
            let tools = rookery_client::Tools::as_agent(&self.crew.client, id.as_str())?;
            // While the daemon is unavailable the answer is unknown, and the team continues.
            let asking = tokio::time::timeout(SHUTDOWN_GRACE, self.crew.unread(name, &tools, InboxDepth::OneTurn));
            let Some(Ok(unread)) = self.interrupt.token().run_until_cancelled(asking).await else { return Ok(false) };
            if !unread?.is_empty() {
                self.crew.board.wake(name);
                return Ok(false);
            }
        }
        Ok(self.crew.board.activity().changes == changes)
    }

    /// The outcome of a team that ended by itself.
    fn conclusion(&self) -> RunConclusion {
        let failed = self.crew.board.statuses().into_iter().find_map(|(agent, why)| Some((agent.name, why?)));
        match (self.crew.ledger.failure(), failed) {
            (Some(reason), _) => RunConclusion::by(RunOutcome::Failed, reason),
            (None, Some((name, why))) => {
                RunConclusion::by(RunOutcome::Failed, format!("the last turn of {name} failed: {why}"))
            }
            (None, None) => RunConclusion { outcome: RunOutcome::Completed, reason: None },
        }
    }

    /// Ends the team in the log, unregisters its agents, and summarizes the run.
    async fn close(&self, conclusion: RunConclusion, resumed: bool) -> RunSummary {
        let crew = self.crew;
        let document = match conclusion.outcome {
            // A suspended run has no result yet, and the process should end soon.
            RunOutcome::Suspended => None,
            _ => tokio::time::timeout(SHUTDOWN_GRACE, summary::entry_document(crew)).await.ok().flatten(),
        };
        let ending = async {
            // A suspended team stays unchanged: its agents keep their claims, as after a crash.
            let Some(outcome) = outcome(conclusion.outcome) else { return Ok(()) };
            let (team, reason) = (crew.team.as_str(), conclusion.reason.as_deref());
            crew.client.end_team(team, crew.generation, outcome, reason).await?;
            for id in crew.names.keys() {
                seats::leave(&crew.client, id).await?;
            }
            Ok::<_, rookery_client::ClientError>(())
        };
        match tokio::time::timeout(SHUTDOWN_GRACE, ending).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                crew.reports.note(None, Level::Warning, format!("could not record the end of the team: {error}"));
            }
            Err(_) => {
                let text = "the daemon is unavailable: the end of the team is not recorded until its next start";
                crew.reports.note(None, Level::Warning, text);
            }
        }
        let took = crew.clock.now();
        crew.reports.send(Report::Ended {
            outcome: conclusion.outcome,
            reason: conclusion.reason.clone(),
            took,
            total: crew.board.total(),
        });
        RunSummary::of(crew, &conclusion, resumed, took, document)
    }
}

enum Assessment {
    Ended(RunConclusion),
    /// Assess again after this time, or when something changes.
    Wait(Duration),
}

fn ended_by(ending: InterruptKind) -> RunOutcome {
    match ending {
        InterruptKind::Stop => RunOutcome::Interrupted,
        InterruptKind::Suspend => RunOutcome::Suspended,
    }
}

/// Converts to the outcome in the log; `None` for a suspended team.
fn outcome(outcome: RunOutcome) -> Option<TeamEndOutcome> {
    match outcome {
        RunOutcome::Completed => Some(TeamEndOutcome::Completed),
        RunOutcome::Failed => Some(TeamEndOutcome::Failed),
        RunOutcome::Stopped => Some(TeamEndOutcome::Stopped),
        RunOutcome::Interrupted => Some(TeamEndOutcome::Interrupted),
        RunOutcome::Suspended => None,
    }
}
