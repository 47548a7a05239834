//! One table of acts through every surface: REST, MCP, Clutch and the CLI, against a real daemon.
//!
//! Each act starts from the same situation on every surface and is then performed in that surface's own terms. Its outcome
//! is the list of events that it appended, or the code of its rejection. The outcomes are committed as text under
//! `expected/`, one file per family of acts; surfaces that agree share an entry there. After a change on purpose,
//! `INSTA_UPDATE=always cargo nextest run --workspace -E 'binary(parity)'` rewrites these files; read the diff.
//!
//! The harness knows the daemon only from outside: HTTP, the program, and the exported log.

#![expect(clippy::unwrap_used, reason = "a harness that cannot proceed fails its test")]

mod act;
mod acts;
mod answer;
mod drivers;
mod normalise;
mod outcome;
mod record;
mod report;
mod scene;
mod summary;

use acts::Family;

async fn check(family: Family) {
    let recorded = record::record(&family).await;
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("expected");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(family.name, report::render(&recorded)));
}

#[tokio::test]
async fn task_claim_outcomes_match_expectations() {
    check(acts::claim::family()).await;
}

#[tokio::test]
async fn task_start_outcomes_match_expectations() {
    check(acts::start::family()).await;
}

#[tokio::test]
async fn task_complete_outcomes_match_expectations() {
    check(acts::complete::family()).await;
}

#[tokio::test]
async fn task_fail_outcomes_match_expectations() {
    check(acts::fail::family()).await;
}

#[tokio::test]
async fn task_step_outcomes_match_expectations() {
    check(acts::step::family()).await;
}

#[tokio::test]
async fn task_release_outcomes_match_expectations() {
    check(acts::release::family()).await;
}

#[tokio::test]
async fn task_retry_outcomes_match_expectations() {
    check(acts::retry::family()).await;
}

#[tokio::test]
async fn task_cancel_outcomes_match_expectations() {
    check(acts::cancel::family()).await;
}

#[tokio::test]
async fn task_create_outcomes_match_expectations() {
    check(acts::create::family()).await;
}

#[tokio::test]
async fn agent_outcomes_match_expectations() {
    check(acts::agent::family()).await;
}

#[tokio::test]
async fn file_outcomes_match_expectations() {
    check(acts::file::family()).await;
}

#[tokio::test]
async fn handoff_outcomes_match_expectations() {
    check(acts::handoff::family()).await;
}

#[tokio::test]
async fn message_outcomes_match_expectations() {
    check(acts::message::family()).await;
}
