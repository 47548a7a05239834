//! Cutting a context until it fits: what matters least goes first, and no more of it than is needed.

use rookery_core::{Code, Rejection};

use super::view::{Cut, Kept, Rank, Sorted};
use super::{Include, Material, TaskContextView};
use crate::runs::estimate_tokens;

/// Less than this cannot say what a task is about.
pub const MIN_TOKENS: usize = 500;

/// Lengths that texts are cut to, one after another.
const TEXTS: [usize; 6] = [4_000, 2_000, 1_000, 500, 200, 60];
const OWN_TEXTS: [usize; 7] = [4_000, 2_000, 1_000, 400, 150, 40, 15];
const LAST_TEXTS: [usize; 4] = [1_000, 300, 100, 30];

/// One thing that can be cut: how far at most, and how.
struct Stage {
    most: fn(&Sorted<'_>) -> usize,
    cut: fn(&mut Cut, usize),
}

/// In the order in which things go: old details, then outcomes of others, then long texts; the task, its plan, the
/// newest checkpoint and what was decided go last.
const STAGES: [Stage; 19] = [
    Stage { most: |all| all.count(Rank::Old), cut: |cut, by| cut.old_details = by },
    Stage { most: |all| all.prior.len(), cut: |cut, by| cut.prior_details = by },
    Stage { most: |all| all.siblings.len() + all.prior.len(), cut: |cut, by| cut.outcomes = by },
    Stage { most: |all| all.siblings.len() + all.prior.len(), cut: |cut, by| cut.entries = by },
    Stage { most: |_| TEXTS.len(), cut: |cut, by| cut.texts = length(&TEXTS, by) },
    Stage { most: |all| all.count(Rank::Old), cut: |cut, by| cut.old_checkpoints = by },
    Stage { most: |all| all.dependencies.len(), cut: |cut, by| cut.dependencies = by },
    Stage { most: |all| all.held_files(), cut: |cut, by| cut.files = by },
    Stage { most: |_| 1, cut: |cut, by| cut.workflow = kept(by) },
    Stage { most: |all| all.decisions(), cut: |cut, by| cut.decision_details = by },
    Stage { most: |_| 1, cut: |cut, by| cut.newest_detail = kept(by) },
    Stage { most: |_| 3, cut: |cut, by| cut.own_texts = length(&OWN_TEXTS, by) },
    Stage { most: |_| 1, cut: |cut, by| cut.context = kept(by) },
    Stage { most: |_| OWN_TEXTS.len(), cut: |cut, by| cut.own_texts = length(&OWN_TEXTS, by.max(3)) },
    Stage { most: |_| 1, cut: |cut, by| cut.workspace = kept(by) },
    Stage { most: |_| 1, cut: |cut, by| cut.plan = kept(by) },
    Stage { most: |_| LAST_TEXTS.len() - 1, cut: |cut, by| cut.last_texts = length(&LAST_TEXTS, by) },
    Stage { most: |all| all.decisions(), cut: |cut, by| cut.decisions = by },
    Stage { most: |_| LAST_TEXTS.len(), cut: |cut, by| cut.last_texts = length(&LAST_TEXTS, by) },
];

fn length(lengths: &[usize], by: usize) -> Option<usize> {
    by.checked_sub(1).and_then(|at| lengths.get(at)).copied()
}

fn kept(by: usize) -> Kept {
    if by == 0 { Kept::Yes } else { Kept::No }
}

/// The context of a task in at most so many tokens.
pub fn compose(material: &Material, include: &Include, max_tokens: usize) -> Result<TaskContextView, Rejection> {
    if max_tokens < MIN_TOKENS {
        return Err(Rejection::new(
            Code::Invalid,
            format!("max_tokens is {max_tokens}; at least {MIN_TOKENS} are needed"),
        )
        .hint("leave it out for 8000"));
    }
    let sorted = Sorted::of(material, include);
    let fits = |cut: &Cut| {
        let context = estimated(sorted.render(cut), sorted.around());
        Some(context).filter(|context| context.token_estimate <= max_tokens)
    };
    let mut cut = Cut::default();
    if let Some(context) = fits(&cut) {
        return Ok(context);
    }
    for stage in STAGES {
        let most = (stage.most)(&sorted);
        let mut trial = |by: usize| {
            (stage.cut)(&mut cut, by);
            fits(&cut)
        };
        if let Some(enough) = trial(most) {
            return Ok(least(most, enough, trial));
        }
    }
    let message = format!("the task does not fit into {max_tokens} tokens, whatever is left out");
    Err(Rejection::new(Code::TooLarge, message).hint("allow more tokens"))
}

/// The context with the least cut that fits, given the one with the most.
fn least(
    most: usize,
    enough: TaskContextView,
    mut trial: impl FnMut(usize) -> Option<TaskContextView>,
) -> TaskContextView {
    let (mut too_little, mut fits, mut best) = (0, most, enough);
    while fits - too_little > 1 {
        let between = too_little + (fits - too_little) / 2;
        match trial(between) {
            Some(context) => (fits, best) = (between, context),
            None => too_little = between,
        }
    }
    best
}

/// Puts in the estimate of the whole, what is sent along and the estimate's own digits included.
fn estimated(mut context: TaskContextView, around: usize) -> TaskContextView {
    let chars = serde_json::to_string(&context).map_or(usize::MAX, |json| json.chars().count());
    let without = chars.saturating_sub(digits(context.token_estimate)).saturating_add(around);
    let mut tokens = estimate_tokens(without.saturating_add(1));
    while estimate_tokens(without.saturating_add(digits(tokens))) > tokens {
        tokens += 1;
    }
    context.token_estimate = tokens;
    context
}

fn digits(number: usize) -> usize {
    number.to_string().len()
}
