//! Git, by its own program: worktrees that are made, merged and removed without losing work.
//!
//! Nothing here knows the log. A refusal is in git's words where it is git that refuses. Every name that a caller chose is
//! checked before git sees it, stands where no option can stand, and never becomes part of a shell's line.
//!
//! # Agents' files
//! Agents write their worktree and most of the repository's git folder, also while our git runs. Therefore
//! - git is given a git folder of ours (`view.rs`) with settings of ours (`settings.rs`). It never reads the repository's
//!   configuration, hooks or attributes, so nothing can name a program to it; and it finds no program (`process.rs`), not
//!   even itself, which keeps it out of repositories in folders below;
//! - git runs in a sandbox of its own where bubblewrap works (`sandbox.rs`), with the folders that we hold open and no
//!   others. Outside of it run only `check-ref-format` and `config`, which read their arguments, standard input and the
//!   person's own settings;
//! - git is not asked where a repository or a worktree is. Its files about that are read here (`repository.rs`,
//!   `worktree.rs`) and must lead to each other;
//! - folders are held open and links are not followed (`held.rs`): a worktree is made, saved and removed in the folder that
//!   was checked, whatever is at its path by then;
//! - our locks and records are in the project's `.rookery/`, which agents cannot write.

mod backup;
#[cfg(test)]
mod hostile;
mod merge;
mod process;
mod remove;
mod repository;
mod sandbox;
mod settings;
#[cfg(test)]
mod tests;
mod view;
mod worktree;

pub use merge::Offered;
pub use remove::Unwanted;
pub use repository::{Repository, check_branch};
pub use worktree::WorktreeRequest;
