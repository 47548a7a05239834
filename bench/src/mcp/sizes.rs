//! The share of a model's context that the lists of tools take.

use std::net::SocketAddr;

use anyhow::Context;

use super::session::{Session, answer};
use crate::report::{Figure, Report};

/// The address and the size limit of each set of tools.
const SETS: [(&str, Option<f64>); 5] = [
    ("/mcp", None),
    ("/mcp/workflow", None),
    ("/mcp/context", None),
    ("/mcp/coord", None),
    ("/mcp/team", Some(1_999.0)),
];

pub(super) async fn add(address: SocketAddr, report: &mut Report) -> anyhow::Result<()> {
    for (path, bound) in SETS {
        let reply = Session::open(address, path, "bench-0").await?.ask(1, "tools/list", "{}").await?;
        let answer = answer(&reply)?;
        let tools = answer["result"]["tools"].as_array().with_context(|| format!("no tools at {path}: {answer}"))?;
        // Four characters for a token, as everywhere in the project.
        let tokens = answer["result"].to_string().chars().count().div_ceil(4);
        let figure = Figure::new(format!("tools/list at {path}, {} tools", tools.len()), tokens as f64, "tokens");
        report.add(match bound {
            Some(bound) => figure.at_most(bound),
            None => figure,
        });
    }
    Ok(())
}
