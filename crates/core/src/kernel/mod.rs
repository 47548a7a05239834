//! Ids, codes, limits, callers and rejections: the vocabulary of every rule. Knows no noun.

pub mod caller;
pub mod code;
pub mod event_id;
pub mod hex;
pub mod id;
pub mod instance;
pub mod limit;
pub mod name;
pub mod network;
pub mod outbound;
pub mod parse;
pub mod rejection;
pub mod session_key;
pub mod time;
