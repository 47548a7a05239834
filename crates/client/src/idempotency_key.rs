//! Idempotency keys, with which a call can be retried without being done twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::ClientError;

/// Generates unique keys. Clones share a counter.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: Arc<str>,
    count: Arc<AtomicU64>,
}

impl Keys {
    /// Creates a generator with a random prefix, from the random source of the TLS library.
    pub(crate) fn new() -> Result<Keys, ClientError> {
        let mut bytes = [0_u8; 16];
        let source = rustls::crypto::ring::default_provider().secure_random;
        source.fill(&mut bytes).map_err(|_| ClientError::Randomness)?;
        let prefix: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Keys { prefix: prefix.into(), count: Arc::default() })
    }

    pub(crate) fn next(&self) -> String {
        format!("{}-{}", self.prefix, self.count.fetch_add(1, Ordering::Relaxed))
    }
}
