//! Runs the programs behind agents. No other module of this crate starts or signals a process.
//!
//! The hidden command `rookery exec` ([`exec_shim`]) starts a program in a new session with an environment made for it; the
//! program dies with this process. Its output is read line by line within bounds and kept in a transcript, without the
//! [`secrets`] of its environment. Its whole process tree ends with it: [`process_tree`] finds the members by their session, or
//! by a mark in their environment if they left it. A [`record`] on disk lets a later runner end them after a crash. A process
//! is signalled only when it is certainly ours. In a sandbox, a [`watchdog`] ends a program that exceeds its [`resources`]; so
//! does the kernel where it offers a [`control_group`].

mod control_group;
pub mod exec_shim;
mod lines;
mod process_tree;
mod program;
mod record;
mod resources;
mod run;
mod secrets;
mod spawner;
mod transcript;
mod watchdog;

pub use control_group::kernel_bounds;
pub use process_tree::{GRACE, is_alive};
pub use program::{ExecShim, Program, Secrecy, kept_environment};
pub use record::{Orphan, end_orphans};
pub(crate) use resources::SandboxBounds;
pub use resources::{Excess, ProcessLimits, ResourceLimits};
pub use run::{Finished, NotStarted, OutputStream, ProcessEnd, RunLimits, run};
