//! Performs the acts of a family on every surface and collects their outcomes.

use futures_util::future::join_all;
use serde_json::Value;

use crate::act::Act;
use crate::acts::Family;
use crate::answer::Answer;
use crate::drivers::{Lacks, Surface};
use crate::outcome::Outcome;
use crate::scene::{Scene, Stage};

/// An act with its outcome on each surface, in the order of [`Surface::ALL`].
#[derive(Debug)]
pub struct Recorded {
    pub act: Act,
    pub outcomes: Vec<(Surface, Result<Outcome, Lacks>)>,
}

/// An act that was performed; its events are read from the log at the end.
struct Performed {
    scene: Scene,
    answer: Answer,
    before: u64,
    after: u64,
}

pub async fn record(family: &Family) -> Vec<Recorded> {
    let stage = Stage::start().await;
    let mut performed = vec![];
    for (index, act) in family.acts.iter().enumerate() {
        performed.push(perform(&stage, act, index * Surface::ALL.len()).await);
    }
    let log = stage.daemon.export().unwrap();
    let with_outcome = |act: &Act, (surface, attempt): (Surface, Result<Performed, Lacks>)| {
        (surface, attempt.map(|performed| outcome(act, performed, &log)))
    };
    let recorded = family.acts.iter().zip(performed).map(|(act, attempts)| Recorded {
        act: act.clone(),
        outcomes: attempts.into_iter().map(|attempt| with_outcome(act, attempt)).collect(),
    });
    recorded.collect()
}

/// Performs an act on each surface, one after the other, so that the log between two positions belongs to one of them.
async fn perform(stage: &Stage, act: &Act, first: usize) -> Vec<(Surface, Result<Performed, Lacks>)> {
    let scenes = Surface::ALL.into_iter().zip(first..).map(async |(surface, number)| match surface.lacks(act) {
        Some(lacks) => (surface, Err(lacks)),
        None => (surface, Ok(Scene::build(stage, number, &act.given).await)),
    });
    let scenes = join_all(scenes).await;
    let mut head = stage.head().await;
    let mut attempts = vec![];
    for (surface, scene) in scenes {
        let attempt = match scene {
            Ok(scene) => perform_on(surface, stage, act, scene, &mut head).await,
            Err(lacks) => Err(lacks),
        };
        attempts.push((surface, attempt));
    }
    attempts
}

async fn perform_on(
    surface: Surface,
    stage: &Stage,
    act: &Act,
    scene: Scene,
    head: &mut u64,
) -> Result<Performed, Lacks> {
    let before = *head;
    let answer = surface.perform(act, stage, &scene).await?;
    *head = stage.head().await;
    Ok(Performed { scene, answer, before, after: *head })
}

fn outcome(act: &Act, performed: Performed, log: &[Value]) -> Outcome {
    let Performed { scene, answer, before, after } = performed;
    let is_between = |row: &Value| row["seq"].as_u64().is_some_and(|seq| before < seq && seq <= after);
    let rows: Vec<Value> = log.iter().filter(|row| is_between(row)).cloned().collect();
    Outcome::new(act, &scene, answer, &rows)
}
