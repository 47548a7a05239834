//! Watching over a team at work, until it is over: nobody has anything left to do, a limit is reached, somebody stops it, or
//! time is up. Then everything is put in order, and it is told what came of it.

use std::sync::Arc;
use std::time::Duration;

use rookery_client::teams::{Mode, Outcome as TeamOutcome};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::begin::Begun;
use super::crew::Crew;
use super::decide::quiet::{Look, Quiet};
use super::interrupt::{Ending, Interrupt};
use super::report::{Level, Outcome, Report, Reports};
use super::summary::{self, Summary};
use super::turn::SHUTDOWN_GRACE;
use super::watch::{self, Stopped};
use super::{Order, TeamError, seats};
use crate::file::show_duration;
use crate::turn::InboxDepth;

/// How long agents may take to end when the team does. Backends end their programs sooner.
const ENDING: Duration = Duration::from_secs(60);

/// How it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Over {
    pub(super) outcome: Outcome,
    pub(super) reason: Option<String>,
}

impl Over {
    fn by(outcome: Outcome, reason: impl Into<String>) -> Over {
        Over { outcome, reason: Some(reason.into()) }
    }
}

pub(super) async fn supervise(
    order: Order,
    begun: Begun,
    reports: Reports,
    interrupt: Interrupt,
) -> Result<Summary, TeamError> {
    let Begun { crew, members, position, held, resumed } = begun;
    let mut loops = JoinSet::new();
    for member in members {
        loops.spawn(member.run());
    }
    let asked = Arc::new(Notify::new());
    let follower = crew.client.follow(vec![], position, Duration::MAX);
    let mut daemon = JoinSet::new();
    daemon.spawn(heartbeats(Arc::clone(&crew)));
    daemon.spawn(following(Arc::clone(&crew), follower, Arc::clone(&asked)));
    daemon.spawn(watching(Arc::clone(&crew), asked));
    let team = Team { order: &order, crew: &crew, interrupt: &interrupt };
    let over = team.over(&mut loops, &mut daemon).await;
    crew.stop.cancel();
    let ended = settle(&mut loops, &over, &reports).await;
    daemon.shutdown().await;
    let error = match (over, ended) {
        (Ok(over), Ok(())) => {
            let summary = team.close(over, resumed).await;
            drop(held);
            return Ok(summary);
        }
        (Err(error), _) | (Ok(_), Err(error)) => error,
    };
    // Nobody else runs it, so it ends here; of one that somebody else runs there is nothing left to end.
    if !matches!(error, TeamError::Superseded { .. }) {
        team.close(Over::by(Outcome::Failed, error.to_string()), resumed).await;
    }
    Err(error)
}

/// What ends one of the tasks beside the agents' loops.
type Heard = Result<Stopped, TeamError>;

async fn heartbeats(crew: Arc<Crew>) -> Heard {
    watch::heartbeats(crew).await;
    Ok(Stopped::Superseded)
}

async fn following(crew: Arc<Crew>, follower: rookery_client::Follower, asked: Arc<Notify>) -> Heard {
    watch::follow(crew, follower, asked).await?;
    // Only the slow looks are left, which do as well.
    std::future::pending().await
}

async fn watching(crew: Arc<Crew>, asked: Arc<Notify>) -> Heard {
    watch::watch(crew, asked).await
}

/// Waits for the loops of agents, which end because they were told to. An error of one of them is why the team ended, if
/// nothing else is.
async fn settle(
    loops: &mut JoinSet<Result<(), TeamError>>,
    over: &Result<Over, TeamError>,
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
        reports.note(None, Level::Warning, "some agents do not end; they end with this process");
    }
    // Somebody who wants it to end does not care what could not be told any more.
    match over {
        Ok(over) if over.outcome != Outcome::Completed => Ok(()),
        _ => first,
    }
}

struct Team<'a> {
    order: &'a Order,
    crew: &'a Arc<Crew>,
    interrupt: &'a Interrupt,
}

impl Team<'_> {
    /// Returns when the team has nothing more to do, or may not.
    async fn over(
        &self,
        loops: &mut JoinSet<Result<(), TeamError>>,
        daemon: &mut JoinSet<Heard>,
    ) -> Result<Over, TeamError> {
        let mut quiet = Quiet::default();
        loop {
            let wait = match self.look(&mut quiet).await? {
                Seen::Over(over) => return Ok(over),
                Seen::Wait(time) => time,
            };
            tokio::select! {
                biased;
                ending = self.interrupt.told() => return Ok(Over { outcome: ended_by(ending), reason: None }),
                heard = daemon.join_next() => match heard {
                    Some(Ok(Ok(Stopped::Asked(reason)))) => return Ok(Over { outcome: Outcome::Stopped, reason }),
                    Some(Ok(Ok(Stopped::Superseded))) => {
                        return Err(TeamError::Superseded { team: self.crew.team.clone() });
                    }
                    Some(Ok(Err(error))) => return Err(error),
                    // A task of ours that panicked has said so; the others do without it.
                    Some(Err(_)) | None => {}
                },
                ended = loops.join_next(), if !loops.is_empty() => {
                    if let Some(Ok(Err(error))) = ended {
                        return Err(error);
                    }
                }
                () = self.crew.board.changed() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    async fn look(&self, quiet: &mut Quiet) -> Result<Seen, TeamError> {
        let (now, glance) = (self.crew.clock.now(), self.crew.board.glance());
        let left = self.order.timeout.map(|timeout| timeout.saturating_sub(now));
        if let (Some(Duration::ZERO), Some(timeout)) = (left, self.order.timeout) {
            let reason = format!("it took longer than {} (--timeout)", show_duration(timeout));
            self.crew.fails_by(None, &reason).await;
            return Ok(Seen::Over(Over::by(Outcome::Failed, reason)));
        }
        if glance.all_stopped {
            return Ok(Seen::Over(Over::by(Outcome::Stopped, "all of its agents were stopped")));
        }
        let stays = self.order.mode != Mode::Run;
        let (reached, until) = (self.crew.ledger.reached(now), self.crew.ledger.runtime_left(now));
        if stays && (reached.is_none() || glance.working) {
            return Ok(Seen::Wait(left.unwrap_or(Duration::MAX).min(until)));
        }
        if let Some(reached) = reached.filter(|_| stays) {
            self.crew.ledger.fail(format!("no further turn begins: {reached}"));
        }
        let wait = match quiet.look(now, glance.busy, glance.stirred) {
            Look::Busy => Duration::MAX,
            Look::Settling(time) => time,
            Look::AskAgain if self.is_quiet(glance.stirred).await? => return Ok(Seen::Over(self.verdict())),
            Look::AskAgain => {
                quiet.begin_again();
                Duration::ZERO
            }
        };
        Ok(Seen::Wait(left.map_or(wait, |left| left.min(wait))))
    }

    /// Asks everybody's inbox once more.
    async fn is_quiet(&self, stirred: u64) -> Result<bool, TeamError> {
        let free = self.crew.board.free();
        let ids: Vec<_> = self.crew.names.iter().filter(|(_, name)| free.contains(name)).collect();
        for (id, name) in ids {
            let tools = rookery_client::Tools::as_agent(&self.crew.client, id.as_str())?;
            // With the daemon away nobody can tell, and other things end it sooner.
            let asking = tokio::time::timeout(SHUTDOWN_GRACE, self.crew.unread(name, &tools, InboxDepth::OneTurn));
            let Some(Ok(unread)) = self.interrupt.token().run_until_cancelled(asking).await else { return Ok(false) };
            if !unread?.is_empty() {
                self.crew.board.wake(name);
                return Ok(false);
            }
        }
        Ok(self.crew.board.glance().stirred == stirred)
    }

    /// How it ended by itself.
    fn verdict(&self) -> Over {
        let failed = self.crew.board.standings().into_iter().find_map(|(agent, why)| Some((agent.name, why?)));
        match (self.crew.ledger.failure(), failed) {
            (Some(reason), _) => Over::by(Outcome::Failed, reason),
            (None, Some((name, why))) => Over::by(Outcome::Failed, format!("the last turn of {name} failed: {why}")),
            (None, None) => Over { outcome: Outcome::Completed, reason: None },
        }
    }

    /// Ends it at the daemon, lets the agents leave, and tells what came of it.
    async fn close(&self, over: Over, resumed: bool) -> Summary {
        let crew = self.crew;
        let document = match over.outcome {
            // It has no result yet, and whoever ended the process may not wait.
            Outcome::Suspended => None,
            _ => tokio::time::timeout(SHUTDOWN_GRACE, summary::entry_document(crew)).await.ok().flatten(),
        };
        let ending = async {
            // One that others go on with stays as it is: its agents keep what they hold, as after a crash.
            let Some(outcome) = outcome(over.outcome) else { return Ok(()) };
            let (team, reason) = (crew.team.as_str(), over.reason.as_deref());
            crew.client.end_team(team, crew.generation, outcome, reason).await?;
            for id in crew.names.keys() {
                seats::leave(&crew.client, id).await?;
            }
            Ok::<_, rookery_client::ClientError>(())
        };
        match tokio::time::timeout(SHUTDOWN_GRACE, ending).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => crew.reports.note(None, Level::Warning, format!("the daemon was not told all: {error}")),
            Err(_) => {
                let text = "the daemon is away and does not know that the team ended; the next start sees to it";
                crew.reports.note(None, Level::Warning, text);
            }
        }
        let took = crew.clock.now();
        crew.reports.tell(Report::Ended {
            outcome: over.outcome,
            reason: over.reason.clone(),
            took,
            total: crew.board.total(),
        });
        Summary::of(crew, &over, resumed, took, document)
    }
}

enum Seen {
    Over(Over),
    /// Look again after this time, or when something changes.
    Wait(Duration),
}

fn ended_by(ending: Ending) -> Outcome {
    match ending {
        Ending::ForGood => Outcome::Interrupted,
        Ending::ForNow => Outcome::Suspended,
    }
}

/// How it ended for the log, if it did.
fn outcome(outcome: Outcome) -> Option<TeamOutcome> {
    match outcome {
        Outcome::Completed => Some(TeamOutcome::Completed),
        Outcome::Failed => Some(TeamOutcome::Failed),
        Outcome::Stopped => Some(TeamOutcome::Stopped),
        Outcome::Interrupted => Some(TeamOutcome::Interrupted),
        Outcome::Suspended => None,
    }
}
