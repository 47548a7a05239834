//! Runs teams of agents from workflow files. It is a client of the daemon, and depends neither on the store nor on the engine.
//!
//! [`file`] parses a workflow file, reports everything that is wrong with it, and previews a run. [`setup`] runs the setup
//! commands, and [`team`] the agents. [`turn`] writes their prompts, and [`backend`] runs one turn on a program or model.
//! [`process`] starts, watches and ends programs, [`sandbox`] limits their files and network, and [`screen`] shows the
//! progress to a person.

pub mod backend;
pub mod file;
mod open_folder;
pub mod process;
pub mod sandbox;
pub mod screen;
pub mod setup;
pub mod steps;
pub mod team;
#[cfg(test)]
mod testing;
pub mod turn;
