//! The runner: its programs as they are, misbehaving ones among them.

mod process;
