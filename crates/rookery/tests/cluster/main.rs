//! Several real daemons over one real PostgreSQL: one order for all, one holder for everything, whatever becomes of a
//! node, of the database, or of the network between them.
//!
//! One file for each promise. [`nodes`] starts the daemons, [`load`] writes through all of them and knows what it was
//! told, [`record`] follows their streams, and [`checker`] compares what was told with the log.

mod checker;
mod claims;
mod commits;
mod crash;
mod database;
mod load;
mod messages;
mod nodes;
mod older;
mod own_writes;
mod pause;
mod record;
mod room;
mod schemas;
mod shared;
mod sites;
