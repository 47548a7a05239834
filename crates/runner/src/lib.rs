//! What runs teams of agents from workflow files. It is a client of the daemon: it knows no store and no engine, only the
//! rules that both sides keep to.
//!
//! [`file`] reads a workflow file, tells everything that is wrong with it, and says what would happen. [`setup`] runs what is
//! to run first, [`team`] the agents, [`turn`] says what each is told, [`backend`] is what one turn of an agent is to
//! whatever runs it, [`process`] starts, follows and ends the programs that do, [`sandbox`] is what they can see and reach, and
//! [`screen`] shows a person what goes on.

pub mod backend;
pub mod file;
mod held;
pub mod process;
pub mod sandbox;
pub mod screen;
pub mod setup;
pub mod steps;
pub mod team;
#[cfg(test)]
mod testing;
pub mod turn;
