//! Programs that run agents. The only module of this crate that starts a process or signals one.
//!
//! A program is started by our own hidden command ([`launch`]) in a session of its own, with an environment that was made
//! for it, and dies with this process. What it writes is read line by line within bounds and kept in a transcript, without the
//! [`secrets`] that it was given. It ends
//! with everything that it started: [`process_tree`] finds those by their session, and by a mark in their environment if they left
//! it; [`record`] makes that possible for whoever comes after a crash. Nothing is signalled that is not known to be ours. In a
//! sandbox, a [`watchdog`] ends it when it uses more than its [`resources`]; so does the kernel, where it has a [`control_group`].

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
pub use process_tree::{GRACE, lives};
pub use program::{ExecShim, Program, Secrecy, kept_environment};
pub use record::{Orphan, end_orphans};
pub(crate) use resources::Bounds;
pub use resources::{Excess, ProcessLimits, ResourceLimits};
pub use run::{Finished, How, Limits, NotStarted, Stream, run};
