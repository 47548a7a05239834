//! The `rookery` program: command line, configuration, and the wiring of the daemon.
//!
//! What a person types is parsed and answered in [`cli`], one file per command. [`config`] says what the settings are
//! and where each value came from, [`project`] which project is meant and what lies in its `.rookery/` folder.
//! [`daemon`], [`offline`] and [`stores`] are the only modules that reach into the store and the engine; every other command is a
//! client of the daemon's HTTP face, so that the command line can never disagree with what agents see. [`telemetry`] tells a
//! collector of tasks, if there is one.

pub mod cli;
pub mod config;
pub mod daemon;
pub mod offline;
pub mod process;
pub mod project;
pub mod stores;
mod team_files;
mod team_starter;
mod telemetry;
