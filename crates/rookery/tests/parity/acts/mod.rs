//! The table of acts, in families. A family shares a daemon and a file of expectations.

pub mod agent;
pub mod cancel;
pub mod claim;
pub mod complete;
pub mod create;
pub mod fail;
pub mod file;
pub mod handoff;
pub mod message;
pub mod release;
pub mod retry;
pub mod start;
pub mod step;

use crate::act::Act;

#[derive(Debug)]
pub struct Family {
    /// The name of its file of expectations.
    pub name: &'static str,
    pub acts: Vec<Act>,
}

pub fn all() -> Vec<Family> {
    vec![
        claim::family(),
        start::family(),
        complete::family(),
        fail::family(),
        step::family(),
        release::family(),
        retry::family(),
        cancel::family(),
        create::family(),
        agent::family(),
        file::family(),
        handoff::family(),
        message::family(),
    ]
}
