//! The JSON Schema of a card, for whoever writes one. What it cannot say (ranges of versions, addresses without
//! passwords) the reader checks.

use serde_json::{Value, json};

use super::Card;
use crate::envelope::VERSION;
use crate::limit;

impl Card {
    pub fn schema() -> Value {
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "AgentCard",
            "description": "What an agent offers, how it can be reached, and within which limits. Fields that are not \
                            named here are kept and shown again.",
            "type": "object",
            "required": ["v", "agent_id"],
            "properties": {
                "v": { "const": VERSION },
                "agent_id": {
                    "description": "With or without the prefix agent:.",
                    "type": "string", "pattern": "^\\S+$", "maxLength": limit::AGENT_ID_BYTES + "agent:".len(),
                },
                "display": object(json!({
                    "name": { "type": "string", "maxLength": limit::NAME_BYTES },
                    "desc": { "type": "string", "maxLength": limit::TITLE_BYTES },
                })),
                "endpoints": object(json!({ "a2a": endpoint(), "clutch": endpoint() })),
                "capabilities": { "type": "array", "maxItems": limit::LIST_ENTRIES, "items": capability() },
                "limits": object(json!({
                    "max_concurrency": {
                        "description": "How many tasks it takes at a time; no limit if absent.",
                        "type": "integer", "minimum": 1, "maximum": u32::MAX,
                    },
                    "max_runtime_sec": {
                        "description": "How long one task may take; no limit if absent.",
                        "type": "integer", "minimum": 1, "maximum": u32::MAX,
                    },
                })),
                "security": security(),
            },
        })
    }
}

fn object(properties: Value) -> Value {
    json!({ "type": "object", "properties": properties })
}

fn endpoint() -> Value {
    json!({
        "type": "object",
        "required": ["url"],
        "properties": {
            "url": {
                "description": "http or https, without a user or password.",
                "type": "string", "pattern": "^[hH][tT][tT][pP][sS]?://[^\\s]+$", "maxLength": limit::URL_BYTES,
            },
        },
    })
}

fn names(description: &str) -> Value {
    let entry = json!({ "type": "string", "pattern": "^\\S+$", "maxLength": limit::NAME_BYTES });
    json!({ "description": description, "type": "array", "maxItems": limit::LIST_ENTRIES, "items": entry })
}

fn capability() -> Value {
    json!({
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": {
                "description": "skill:research, tool:mcp.",
                "type": "string", "pattern": "^[^\\s:@]+:[^\\s@]+$", "maxLength": limit::NAME_BYTES + "skill:".len(),
            },
            "version": {
                "description": "A version, where 1.0 and 1 mean 1.0.0, or a range such as ^1.2.",
                "type": "string", "minLength": 1, "maxLength": limit::NAME_BYTES,
            },
            "tags": names("Domains; matched by domain:x."),
            "tools": names("MCP servers that it works with, such as mcp:browser."),
            "trust_level": { "enum": ["sandbox", "prod"] },
            "cost_hint": { "enum": ["low", "medium", "high"] },
            "servers": names("MCP servers that tool:mcp gives access to."),
        },
    })
}

fn security() -> Value {
    object(json!({
        "sandbox": { "description": "Whether it runs isolated.", "type": "boolean" },
        "network": {
            "description": "none, egress-restricted or egress-allowed; egress-restricted if absent.",
            "type": "string", "pattern": "^\\S+$", "maxLength": limit::NAME_BYTES,
        },
        "tool_allowlist": names("The only tools that it may use."),
        "keys": {
            "type": "array", "maxItems": limit::LIST_ENTRIES,
            "items": {
                "type": "object",
                "required": ["kid", "public_key"],
                "properties": {
                    "kid": { "type": "string", "pattern": "^\\S+$", "maxLength": limit::NAME_BYTES },
                    "public_key": {
                        "description": "The 32 bytes of an ed25519 key in base64.",
                        "type": "string", "pattern": "^[A-Za-z0-9+/_-]{43}=?$",
                    },
                },
            },
        },
    }))
}
