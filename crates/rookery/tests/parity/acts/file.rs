//! Claiming, releasing, locking files, and resolving conflicts about them.

use super::Family;
use crate::act::FileCall::*;
use crate::act::Given::{FileClaimed, FileConflict, FileLocked};
use crate::act::Who::*;
use crate::act::{Act, FileCall, Given, Who};

pub fn family() -> Family {
    let file = |name, given: &[Given], by: Who, call: FileCall| Act::new(name, given, by, call);
    let acts = vec![
        file("claim_free", &[], Ada, Claim),
        file("claim_own", &[FileClaimed(Ada)], Ada, Claim),
        file("claim_held_by_other", &[FileClaimed(Ada)], Ben, Claim),
        file("claim_held_by_other_as_lead", &[FileClaimed(Ada)], Lead, Claim),
        file("claim_folder_above_file_of_other", &[FileClaimed(Ada)], Ben, ClaimFolderAbove),
        file("claim_locked", &[FileLocked], Ada, Claim),
        file("claim_as_unregistered_agent", &[], Stranger, Claim),
        file("force_claim_held_by_other", &[FileClaimed(Ada)], Ben, ForceClaim),
        file("force_claim_held_by_other_as_lead", &[FileClaimed(Ada)], Lead, ForceClaim),
        file("force_claim_held_by_other_as_person", &[FileClaimed(Ben)], Person, ForceClaim),
        file("release_own", &[FileClaimed(Ada)], Ada, Release),
        file("release_held_by_other", &[FileClaimed(Ada)], Ben, Release),
        file("release_held_by_other_as_lead", &[FileClaimed(Ada)], Lead, Release),
        file("release_held_as_person", &[FileClaimed(Ada)], Person, Release),
        file("release_unclaimed", &[], Ada, Release),
        file("release_unclaimed_as_person", &[], Person, Release),
        file("lock_free_as_lead", &[], Lead, Lock),
        file("lock_free_as_worker", &[], Ada, Lock),
        file("unlock_as_lead", &[FileLocked], Lead, Unlock),
        file("resolve_conflict_as_lead", &[FileConflict(Ada, Ben)], Lead, ResolveFor(Ben)),
        file("resolve_conflict_as_person", &[FileConflict(Ada, Ben)], Person, ResolveFor(Ben)),
        file("resolve_conflict_as_worker", &[FileConflict(Ada, Ben)], Ben, ResolveFor(Ben)),
        file("resolve_without_conflict_as_person", &[FileClaimed(Ada)], Person, ResolveFor(Ben)),
    ];
    Family { name: "file", acts }
}
