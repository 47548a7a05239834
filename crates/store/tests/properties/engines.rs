//! The same commands on every engine leave the same log and get the same replies.

#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

use rookery_core::redaction::Redact;
use std::sync::Arc;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use rookery_core::traits::LogRow;
use rookery_core::{Seq, Timestamp};
use rookery_store::postgres::{self, Birth, PostgresStore};
use rookery_store::queue::Limits;
use rookery_store::replay::Fold;
use rookery_store::sqlite::{Options, SqliteStore};
use rookery_store::{Clock, Committed, LogQuery, Store, Submission, SubmitError};
use rookery_testkit::postgres::Schema;
use serde_json::Value;

use crate::steps::{Step, steps};
use crate::team::{NOW, Team, board};

const TEAMS_TRIED: usize = 24;

#[derive(Debug)]
struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        NOW
    }

    fn monotonic(&self) -> u64 {
        0
    }
}

/// Teams after random commands on the memory engine.
fn random_teams() -> Vec<Team> {
    let mut runner = TestRunner::deterministic();
    let random_team = |_| {
        let steps: Vec<Step> = steps(160).new_tree(&mut runner).unwrap().current();
        let mut team = Team::new();
        for step in &steps {
            let submission = team.submission(step);
            team.submit(vec![submission]);
        }
        team
    };
    (0..TEAMS_TRIED).map(random_team).collect()
}

/// Submits commands to a store; returns its log without times, and the outcomes.
async fn play_on_store(store: &dyn Store, asked: Vec<Submission>) -> (Vec<Value>, Vec<String>) {
    let mut answers = Vec::new();
    for mut submission in asked {
        if let Some(redact) = submission.command.get_mut::<Redact>() {
            // A redaction carries the event as it is in this very log.
            for target in &mut redact.rows {
                let (mut rows, _) = store.log(LogQuery::one(target.seq)).await.unwrap();
                target.fact = rows.pop().unwrap().event;
            }
        }
        answers.push(describe_outcome(store.submit(submission).await));
    }
    let (log, head) = store.log(LogQuery::after(Seq::ZERO, 10_000)).await.unwrap();
    assert_eq!(head.head, Seq(log.len() as u64));
    let mut fold = Fold::default();
    log.iter().for_each(|row| fold.add(row));
    let keys: Vec<_> = fold.rows().keys().cloned().collect();
    let (rows, _) = store.rows(keys.clone()).await.unwrap();
    let rows = keys.into_iter().zip(rows).filter_map(|(key, row)| Some((key, row?))).collect();
    assert_eq!(fold.differences(&rows, &store.tallies().await.unwrap().0), Vec::<String>::new());
    (log.iter().map(row_value).collect(), answers)
}

fn row_value(row: &LogRow) -> Value {
    let mut event = row.event.to_value();
    mask_times(&mut event);
    let cause = row.cause.map(|cause| cause.0);
    serde_json::json!([row.seq.0, row.event.kind(), row.actor.to_string(), row.via, cause, row.part_index, event])
}

fn mask_times(value: &mut Value) {
    match value {
        // Only times are so large: of the fixed clock, of the database, and derived from them.
        Value::Number(number) if number.as_i64().is_some_and(|number| number >= NOW.0) => {
            *value = Value::from("a time")
        }
        // The id of a notification contains the time at which it was decided.
        Value::String(text) if text.starts_with("ntf_") => *text = "a notification".to_owned(),
        Value::String(text) => *text = mask_written_times(text),
        Value::Array(entries) => entries.iter_mut().for_each(mask_times),
        Value::Object(fields) => fields.values_mut().for_each(mask_times),
        _ => {}
    }
}

/// Texts contain times as `2026-02-01T13:20:11.123Z`.
fn mask_written_times(text: &str) -> String {
    let is_time = |word: &str| word.len() == 24 && word.ends_with('Z') && word.as_bytes()[10] == b'T';
    let words: Vec<&str> = text.split(' ').map(|word| if is_time(word) { "a time" } else { word }).collect();
    words.join(" ")
}

fn describe_outcome(outcome: Result<Committed, SubmitError>) -> String {
    match outcome {
        Ok(committed) => format!("at {}, duplicate {}", committed.at, committed.duplicate),
        Err(error) => error.to_string(),
    }
}

/// The log of the memory engine in the same form.
fn expected_rows(team: &Team) -> Vec<Value> {
    team.log().iter().map(row_value).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn same_commands_on_every_engine_leave_the_same_log() {
    for team in random_teams() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rookery.db");
        let options = Options::new(path, "log_p".into(), Arc::new(FixedClock), Arc::new(board()));
        let files = SqliteStore::open(options).unwrap();
        let schema = Schema::new().unwrap();
        let options = postgres::Options {
            address: schema.url().parse().unwrap(),
            clock: Arc::new(FixedClock),
            board: Arc::new(board()),
            limits: Limits::default(),
            birth: Birth { log_id: "log_p".into(), project_id: "p".into(), project: "p".into() },
            node: "node_p".into(),
            connections: 2,
        };
        let database = PostgresStore::open(options).await.unwrap();
        let (log, answers) = play_on_store(&files, team.asked()).await;
        assert_eq!(log, expected_rows(&team));
        let (same_log, same_answers) = play_on_store(&database, team.asked()).await;
        assert_eq!(same_log, log);
        assert_eq!(same_answers, answers);
        files.close().await;
        database.close().await;
    }
}
