//! Real agent programs with scripted models on one real daemon, judged by what its log says.
//!
//! `cargo xtask test --only agents` installs the programs and names them to these tests.

mod programs;
mod team;
