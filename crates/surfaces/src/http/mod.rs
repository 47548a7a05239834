//! The shared HTTP layer: sockets, the guard, identity, extractors, errors and answers. It knows no surface; the crate's
//! root assembles the surfaces and passes their routes in.
//!
//! | file | content |
//! |---|---|
//! | `answer` | successful answers with their position in the log |
//! | `answer_writer` | rendering large answers row by row |
//! | `error` | errors, their statuses and their body |
//! | `extract` | the caller, the body, the query and the path of a request |
//! | `guard` | checks before a request reaches a surface |
//! | `identity` | credentials that a request carries |
//! | `instance_sockets` | `context.sock` in the folder of each instance |
//! | `limits` | limits of this process, and fair shares of them |
//! | `openapi` | reading a description in OpenAPI |
//! | `ops` | probes and metrics |
//! | `paging` | pages by position in the log |
//! | `paths` | file paths that a caller names |
//! | `peer` | processes that may use the Unix sockets |
//! | `response_body` | the body of a response while it is being sent |
//! | `server` | TCP, TLS and the Unix socket |
//! | `shared_answers` | large answers that readers of one position share, and the bounds on their memory |
//! | `shared_body` | the bodies of these answers |
//! | `state` | the state that all handlers share |

pub(crate) mod answer;
pub(crate) mod answer_writer;
pub(crate) mod error;
pub(crate) mod extract;
pub mod guard;
pub(crate) mod identity;
pub mod instance_sockets;
pub(crate) mod limits;
pub(crate) mod openapi;
pub mod ops;
pub(crate) mod paging;
pub(crate) mod paths;
mod peer;
mod response_body;
pub mod server;
pub(crate) mod shared_answers;
pub(crate) mod shared_body;
pub mod state;

pub use error::HttpError;
pub use limits::Limits;
pub use state::App;
