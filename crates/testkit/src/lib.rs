//! What tests share: a real daemon for each test, the simulation, and misbehaving parts. Never part of the product.

pub mod daemon;
pub mod foreign;
pub mod ledger;
pub mod model;
pub mod patience;
pub mod postgres;
pub mod proxy;
pub mod sim;
pub mod stand_in;
pub mod stream;
pub mod tool;
pub mod websocket;
