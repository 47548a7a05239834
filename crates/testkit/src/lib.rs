//! What tests share: a real daemon for each test, and misbehaving parts around it. Never part of the product.

pub mod daemon;
