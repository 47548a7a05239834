//! Commands and events of agents: who is here, what they are, and who leads.

mod lead;
mod leave;
mod offline;
mod pause;
mod register;
mod returning;
mod status;

pub use lead::{LeadChosen, LeadReason, successor, take_if_vacant};
pub use leave::{AgentLeft, LeaveTeam};
pub use offline::{AgentReturned, AgentWentOffline, DeclareOffline};
pub use pause::{AgentPaused, AgentResumed, PauseAgent, ResumeAgent};
pub(crate) use register::KeyProof;
pub use register::{
    AgentRegistered, AgentUpdated, Announcement, EndpointGrant, Introduction, ProfileChange, RegisterAgent,
};
pub use returning::ReturnAgent;
pub use status::{AgentStatusSet, CurrentTask, SetAgentStatus};
