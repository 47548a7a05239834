//! Commands and events of agents: who is here, what they are, and who leads.

mod card;
mod join;
mod lead;
mod leave;
mod offline;
mod pause;
mod register;
mod returning;
mod status;
mod update;

pub use card::{RegisterCard, UpdateCard};
pub use join::Join;
pub use lead::{LeadChosen, LeadReason, successor, take_if_vacant};
pub use leave::{AgentLeft, LeaveTeam};
pub use offline::{AgentReturned, AgentWentOffline, DeclareOffline};
pub use pause::{AgentPaused, AgentResumed, PauseAgent, ResumeAgent};
pub use register::{AgentRegistered, AgentUpdated, RegisterAgent};
pub(crate) use register::{EndpointGrant, KeyProof};
pub use returning::ReturnAgent;
pub use status::{AgentStatusSet, CurrentTask, SetAgentStatus};
pub use update::UpdateProfile;
