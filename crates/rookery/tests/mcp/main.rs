//! The MCP face.
