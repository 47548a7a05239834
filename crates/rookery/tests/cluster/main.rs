//! Several real daemons over one real PostgreSQL: one order of events and one holder of everything, under crashes and pauses
//! of nodes, failures of the database and a broken network.
//!
//! One file for each promise. [`nodes`] starts the daemons, [`load`] writes through all of them and records the replies,
//! [`recorder`] follows their streams, and [`checker`] compares replies and streams with the log.

mod checker;
mod claims;
mod commits;
mod crash;
mod database;
mod load;
mod messages;
mod nodes;
mod outdated_node;
mod own_writes;
mod pause;
mod recorder;
mod saturation;
mod schemas;
mod shared;
mod sites;
