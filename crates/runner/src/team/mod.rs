//! A team at work: one process runs one team, with one loop for each of its agents.

pub mod report;
