//! What runs teams of agents from workflow files. It is a client of the daemon: it knows no store and no engine, only the
//! rules that both sides keep to.
//!
//! [`file`] reads a workflow file, tells everything that is wrong with it, and says what would happen. [`backend`] is what
//! one turn of an agent is to whatever runs it, and [`process`] starts, follows and ends the programs that do, in a [`sandbox`].

pub mod backend;
pub mod file;
pub mod process;
pub mod sandbox;
pub mod team;
