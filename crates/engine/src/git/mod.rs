//! Git, by its own program: worktrees that are made, merged and removed without losing work.
//!
//! Nothing here knows the log. What is refused is said in git's words where it is git that refuses. Every name that a
//! caller chose is checked before git sees it, stands where no option can stand, and never becomes part of a shell's line.

mod backup;
mod merge;
mod process;
mod remove;
mod repository;
#[cfg(test)]
mod tests;
mod worktree;

pub use merge::Offered;
pub use remove::Unwanted;
pub use repository::{Repository, check_branch, is_clean};
pub use worktree::Wanted;
