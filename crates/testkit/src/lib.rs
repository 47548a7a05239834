//! Shared by the tests: a real daemon for each test, the fault simulation, and servers and proxies that misbehave on
//! purpose. Never part of the product.

pub mod daemon;
pub mod event_log;
pub mod external_program;
pub mod mcp;
pub mod model;
pub mod postgres;
pub mod proxy;
pub mod sim;
pub mod stream;
pub mod stub_server;
pub mod wait;
pub mod websocket;
