//! Address tricks: making the daemon or the proxy send something where the agent cannot.
