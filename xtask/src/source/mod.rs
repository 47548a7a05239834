//! Rust source as text: tokens, the items they define, and the files of the workspace.
//!
//! There is no name resolution by types and no macro expansion here. `cargo xtask tidy` counts over this, and
//! `cargo xtask rename` resolves paths over it.

mod items;
mod lexer;
mod scan;
mod tree;

pub(crate) use items::{Import, Item, ItemKind, Visibility};
pub(crate) use lexer::{Kind, Token};
pub(crate) use tree::{SourceFile, SourceTree, module_folder, test_binary, tracked_files};
