//! Starting, stopping and ending teams, and the turns of their agents.
//!
//! A team is the agents of an instance (`@pr-123`), or one agent that runs alone (`helper`, `helper@pr-123`). The log says which runner
//! runs it, which generation that is, whether its kickoff is sent and the state of its agents, so that a runner can resume after a
//! crash. The start of a turn is in the log before its program starts. The end of a turn decides at once about its messages:
//! acknowledged if it succeeded, dead after the last attempt, otherwise unchanged.

mod announce;
mod end;
mod kickoff;
mod start;
mod start_request;
mod stop;
mod turn_end;
mod turn_start;

pub use announce::AnnounceToTeam;
pub use end::{EndTeam, TeamEnded};
pub(crate) use kickoff::by_system;
pub use kickoff::{KickOff, TeamKickedOff, WORKFLOW_STARTED};
pub use start::{NewMember, StartTeam, Takeover, TeamResumed, TeamStarted};
pub use start_request::{
    ConcludeTeamStart, RequestTeamStart, TeamSpawned, TeamStartFailed, TeamStartOutcome, TeamStartRequested,
};
pub use stop::{RequestTeamStop, TeamStopRequested};
pub(crate) use turn_end::interrupted;
pub use turn_end::{EndTurn, Notes, TurnEnded};
pub use turn_start::{StartTurn, TurnStarted};
