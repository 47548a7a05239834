//! File claims: which agent works on which path, the changes there, and the conflicts between agents.

mod change;
mod claim;
mod lock;
mod release;
mod report;
mod resolve;
mod timer;

pub use change::{
    ChangeSource, ConflictDetected, ConflictEscalated, FileModified, RecordChange, RecordUntracked,
    UntrackedFilesChanged,
};
pub use claim::{ClaimFile, ClaimForced, ClaimMode, FileClaimed, overlapping};
pub(crate) use claim::{conflicts_about, lock_on, overlap_asks, taken};
pub use lock::{FileLocked, FileUnlocked, LockFile, UnlockFile};
pub(crate) use release::free_files;
pub use release::{FileReleased, ReleaseFile};
pub use report::Report;
pub use resolve::{ConflictResolved, ResolveConflict};
pub use timer::FireTimer;
