//! The JSON Schema of a card, for whoever writes one. What it cannot say (ranges of versions, reserved names, addresses
//! without passwords) the reader checks.

use serde_json::{Value, json};

use crate::clutch::schema::{KINDS, list, name, optional, prefixed};
use crate::kernel::limit;
use crate::model::capabilities::{Card, CostHint, VERSION};
use crate::model::policy::TrustLevel;

impl Card {
    pub fn schema() -> Value {
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "AgentCard",
            "description": "What an agent offers, how it can be reached, and within which limits. Fields that are not \
                            named here are kept.",
            "type": "object",
            "required": ["v", "agent_id"],
            "properties": {
                "v": { "type": "string", "enum": [VERSION] },
                "agent_id": { "description": "With or without 'agent:' in front", "type": "string",
                              "pattern": prefixed(&["agent:"], &KINDS, limit::AGENT_ID_BYTES) },
                "display": object(json!({
                    "name": optional(text("What people call it", limit::NAME_BYTES)),
                    "desc": optional(text("What it is good for", limit::TITLE_BYTES)),
                })),
                "endpoints": object(json!({
                    "a2a": optional(endpoint("Where it speaks A2A")),
                    "clutch": optional(endpoint("Where it takes messages of this protocol")),
                })),
                "capabilities": optional(list(capability())),
                "limits": object(json!({
                    "max_concurrency": optional(count("How many tasks it takes at a time; any number if absent")),
                    "max_runtime_sec": optional(count("How long a task may take it; as long as it likes if absent")),
                })),
                "security": object(security()),
                "meta": { "description": "Whatever a framework adds; 'framework' is what the agent is made with, 'role' what \
                                          it is in the team" },
            },
        })
    }
}

fn object(properties: Value) -> Value {
    optional(json!({ "type": "object", "properties": properties }))
}

fn text(description: &str, most: usize) -> Value {
    json!({ "description": description, "type": "string", "maxLength": most })
}

fn count(description: &str) -> Value {
    json!({ "description": description, "type": "integer", "minimum": 1, "maximum": u32::MAX })
}

fn names(entry: &str) -> Value {
    optional(list(name(entry, limit::NAME_BYTES)))
}

fn endpoint(description: &str) -> Value {
    let url = json!({ "description": "http or https, without a user or password", "type": "string",
                      "pattern": r"^[hH][tT][tT][pP][sS]?://[^\s]+$", "maxLength": limit::URL_BYTES });
    json!({ "description": description, "type": "object", "required": ["url"], "properties": { "url": url } })
}

fn capability() -> Value {
    json!({
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": { "description": "A kind and a name, like 'skill:research' or 'tool:mcp'", "type": "string",
                    "pattern": r"^[^\s:@]+:[^\s@]+$", "maxLength": limit::NAME_BYTES + "skill:".len() },
            "version": optional(json!({
                "description": "A version, where '1.0' and '1' are 1.0.0, or a range, like '^1.2'",
                "type": "string", "minLength": 1, "maxLength": limit::NAME_BYTES })),
            "tags": names("A domain, which 'domain:x' asks for"),
            "tools": names("An MCP server that it works with, like 'mcp:browser'"),
            "trust_level": optional(json!({ "description": "'sandbox' if absent", "type": "string",
                                            "enum": TrustLevel::ALL.map(TrustLevel::as_str) })),
            "cost_hint": optional(json!({ "description": "'medium' if absent", "type": "string",
                                          "enum": CostHint::ALL.map(CostHint::as_str) })),
            "servers": names("An MCP server that 'tool:mcp' gives access to"),
        },
    })
}

fn security() -> Value {
    let key = json!({
        "type": "object",
        "required": ["kid", "public_key"],
        "properties": {
            "kid": name("The key's name", limit::NAME_BYTES),
            "public_key": { "description": "The 32 bytes of an ed25519 key in base64", "type": "string",
                            "pattern": "^[A-Za-z0-9+/_-]{43}=?$" },
        },
    });
    json!({
        "sandbox": optional(json!({ "description": "Whether it runs isolated", "type": "boolean" })),
        "network": optional(name("'none', 'egress-restricted' or 'egress-allowed'; restricted if absent",
                                 limit::NAME_BYTES)),
        "tool_allowlist": names("The only tools that it may use"),
        "keys": optional(list(key)),
    })
}
