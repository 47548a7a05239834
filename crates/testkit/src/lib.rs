//! What tests of the whole system are made of. Only ever a dev-dependency.

pub mod sim;
