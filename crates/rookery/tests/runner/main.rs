//! The runner: whole teams as they are run from the command line, and its programs as they are, misbehaving ones among them.

mod crash;
mod process;
mod run;
mod sdk;
mod stage;
