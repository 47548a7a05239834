//! Runs the git program: makes, merges and removes worktrees without losing work.
//!
//! This module does not know the log. Where git rejects an operation, the rejection quotes git's message. Every name that a
//! caller chose is checked before git gets it, is passed where git accepts no option, and is never part of a shell command.
//!
//! # Agents' files
//! Agents can write their worktree and most of the repository's git folder, also while the daemon's git runs. Therefore:
//! - git gets a git folder of the daemon (`view.rs`) with settings of the daemon (`settings.rs`). It never reads the
//!   repository's configuration, hooks or attributes, so nothing can name a program to it; and it finds no program
//!   (`process.rs`), not even itself, which keeps it out of nested repositories;
//! - git runs in a separate sandbox where bubblewrap works (`sandbox.rs`), with only the folders that are held open.
//!   Outside of it run only `check-ref-format` and `config`, which read their arguments, standard input and the person's
//!   own settings;
//! - git never locates a repository or a worktree. Its files about that are read here (`repository.rs`, `worktree.rs`)
//!   and must point to each other;
//! - folders are held open and links are not followed (`held.rs`): a worktree is made, saved and removed in the folder that
//!   was checked, even if its path leads elsewhere meanwhile;
//! - locks and records are in the project's `.rookery/`, which agents cannot write.

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

pub use merge::MergeRequest;
pub use remove::RemovalRequest;
pub use repository::{Repository, check_branch};
pub use worktree::WorktreeRequest;
