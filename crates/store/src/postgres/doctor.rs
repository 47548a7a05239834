//! What a person should know about a server before they trust it with a log.

use super::connection::{Connector, Question, text};
use super::error::Problem;
use super::source::Session;
use crate::offline::OfflineError;

/// Settings with which an acknowledged event may be lost.
const DURABILITY: &[(&str, &str)] = &[
    ("fsync", "a crash of the machine may lose or damage everything"),
    ("full_page_writes", "a crash of the machine may damage tables"),
];

pub(super) fn problems(connector: &Connector) -> Result<Vec<String>, OfflineError> {
    let session = Session::open(connector)?;
    let mut problems = Vec::new();
    for (name, risk) in DURABILITY {
        let found = session.one(Question::new("SELECT current_setting($1)", vec![Box::new(*name)]))?;
        if found.first().map(|row| text(row, 0)).transpose()?.as_deref() == Some("off") {
            problems.push(format!("the server runs with {name} off: {risk}"));
        }
    }
    problems.extend(replicas(&session)?);
    Ok(problems)
}

/// A replica that does not confirm may be promoted without what was acknowledged.
fn replicas(session: &Session) -> Result<Vec<String>, OfflineError> {
    let sql = "SELECT coalesce(application_name, ''), coalesce(sync_state, '') FROM pg_stat_replication";
    let mut problems = Vec::new();
    for row in session.one(Question::new(sql, vec![]))? {
        let (name, state) = (text(&row, 0)?, text(&row, 1)?);
        if state.is_empty() {
            problems.push(
                "there are replicas, and this role may not see whether they follow synchronously: GRANT pg_read_all_stats \
                 to it, or ask whoever runs the server"
                    .to_owned(),
            );
        }
        if state == "async" {
            problems.push(format!(
                "replica '{name}' follows asynchronously: promoted, it may lack events that were acknowledged. Name it in \
                 synchronous_standby_names"
            ));
        }
    }
    let sql = "SELECT pg_is_in_recovery()";
    let standby: bool = match session.one(Question::new(sql, vec![]))?.first() {
        Some(row) => row.try_get(0).map_err(Problem::from)?,
        None => false,
    };
    if standby {
        problems.push("the server is a replica itself: nothing can be written there".to_owned());
    }
    Ok(problems)
}
