//! The simulation over a fixed range of seeds, and the proof that its checks notice what is broken on purpose.
//!
//! The ranges are apart so that they run side by side; the first hundred seeds are those that show everything that can happen.
//! A seed that fails prints itself and how to run it again; more seeds are run by `cargo xtask sim --seeds A..B`,
//! and a thousand by `cargo xtask trials simulation`.

use std::ops::Range;
use std::panic::resume_unwind;
use std::thread;

use rookery_core::AnyEvent;
use rookery_testkit::sim::{self, Plan, Sabotage, Summary};

/// What these went through; none of them may fail.
fn all_pass(seeds: Range<u64>) -> Vec<Summary> {
    let (passed, failed): (Vec<_>, Vec<_>) = seeds.map(|seed| sim::run(Plan::new(seed))).partition(Result::is_ok);
    let failures: Vec<String> = failed.into_iter().filter_map(Result::err).map(|failure| failure.to_string()).collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    passed.into_iter().filter_map(Result::ok).collect()
}

macro_rules! seeds {
    ($($name:ident: $range:expr;)+) => {$(
        #[test]
        fn $name() {
            all_pass($range);
        }
    )+};
}

seeds! {
    seeds_from_100: 100..115;
    seeds_from_115: 115..130;
}

/// Some seed among the first few must fail, at one of the checks that are there for it.
fn is_caught(sabotage: Sabotage, checks: &[&str]) {
    let plan = |seed| Plan { sabotage: Some(sabotage), ..Plan::new(seed) };
    let mut failures = (0..40).filter_map(|seed| sim::run(plan(seed)).err());
    let caught = failures.any(|failure| checks.contains(&failure.violation.check));
    assert!(caught, "{} was not caught by {checks:?}", sabotage.name());
}

#[test]
fn deciding_over_stale_rows_is_caught() {
    is_caught(Sabotage::SkipLock, &["lead_changes_by_facts", "task_claims_end_by_facts", "request_is_applied_once"]);
}

#[test]
fn expiring_by_the_time_of_day_is_caught() {
    is_caught(Sabotage::ExpireAtStart, &["expired_after_clear_sight"]);
}

#[test]
fn acknowledging_before_the_commit_is_caught() {
    is_caught(Sabotage::AckBeforeCommit, &["reply_agrees_with_the_log"]);
}

#[test]
fn forgetting_replies_is_caught() {
    is_caught(Sabotage::ForgetReplies, &["request_is_applied_once"]);
}

#[test]
fn applying_a_batch_twice_is_caught() {
    is_caught(Sabotage::ApplyTwice, &["request_is_applied_once"]);
}

#[test]
fn a_row_that_is_not_written_is_caught() {
    is_caught(Sabotage::SkipFold, &["rows_are_the_fold_of_the_log"]);
}

#[test]
fn losing_commits_in_a_power_cut_is_caught() {
    is_caught(Sabotage::LoseCommits, &["facts_never_change"]);
}

#[test]
fn a_restored_history_under_its_old_name_is_caught() {
    is_caught(Sabotage::KeepLogId, &["abandoned_position_is_refused"]);
}

#[test]
fn acting_on_a_duty_that_is_over_is_caught() {
    is_caught(Sabotage::IgnoreEpochs, &["duties_are_done_by_whoever_has_them"]);
}

#[test]
fn envelopes_that_are_stored_in_part_are_caught() {
    is_caught(Sabotage::TearBundles, &["bundles_are_whole"]);
}

#[test]
fn giving_a_task_to_somebody_who_does_not_fit_is_caught() {
    is_caught(Sabotage::MixUpAgents, &["hard_filters_hold"]);
}

#[test]
fn messages_that_are_lost_on_their_way_are_caught() {
    is_caught(Sabotage::SwallowPosts, &["ends_are_as_endpoints_saw_them"]);
}

#[test]
fn a_seed_always_runs_the_same_way() {
    for seed in [3, 17] {
        assert_eq!(sim::run(Plan::new(seed)), sim::run(Plan::new(seed)));
    }
}

#[test]
fn everything_that_can_happen_does_happen() {
    let all: Vec<Summary> = thread::scope(|scope| {
        let parts: Vec<_> = (0..4).map(|part| scope.spawn(move || all_pass(part * 25..(part + 1) * 25))).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let total = |of: fn(&Summary) -> u64| all.iter().map(of).sum::<u64>();
    assert!(total(|summary| summary.acknowledged) > 1_000);
    assert!(total(|summary| summary.refused) > 100);
    for rare in [
        total(|summary| summary.unknown),
        total(|summary| summary.duplicates),
        total(|summary| summary.kills),
        total(|summary| summary.restores),
        total(|summary| summary.declared_offline),
        total(|summary| summary.take_overs),
        total(|summary| summary.posts),
        total(|summary| summary.posted_again),
        total(|summary| summary.answers_unheard),
        total(|summary| summary.replies_repeated),
    ] {
        assert!(rare > 0, "{all:?}");
    }
    let happened = |kind: &str| all.iter().any(|summary| summary.kinds.contains(kind));
    // No seed has so many dependents: see `many_dependents_of_an_ended_task_break_no_invariant` of the store's properties.
    let happens = |kind: &&str| *kind != "task.dependents_unblocked";
    let kinds = AnyEvent::KINDS.iter().map(|(kind, _)| *kind).filter(happens);
    let never: Vec<&str> = kinds.filter(|kind| !happened(kind)).collect();
    assert!(never.is_empty(), "no seed led to {never:?}");
}
