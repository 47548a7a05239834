//! The runner: its programs as they are, misbehaving ones among them, and what they can reach.

mod process;
mod sandbox;
