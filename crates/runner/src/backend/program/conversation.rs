//! A program's own conversation, as it is kept between turns and also over restarts of the runner.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::backend::Usage;

/// Which conversation of the program it is, what it began with, and what it has used.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Conversation {
    /// The program's own name for it.
    pub id: String,
    /// What the agent was told about itself when it began. Programs keep that to the end of a conversation, whatever they
    /// are told later; so another text needs another conversation.
    pub told: String,
    /// What it has used so far: some programs report sums over the whole conversation.
    #[serde(default)]
    pub used: Used,
}

#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Used {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: f64,
}

impl Conversation {
    /// The one to go on with, if it began with the same words.
    pub(crate) fn resumed(kept: Option<&str>, system: &str) -> Option<Conversation> {
        let conversation: Conversation = serde_json::from_str(kept?).ok()?;
        (conversation.told == digest(system)).then_some(conversation)
    }

    /// What is kept for the next turn.
    pub(crate) fn kept(id: String, system: &str, before: Used, usage: Usage) -> String {
        let used = Used {
            input_tokens: before.input_tokens.saturating_add(usage.input_tokens),
            output_tokens: before.output_tokens.saturating_add(usage.output_tokens),
            cost_usd: before.cost_usd + usage.cost_usd.unwrap_or_default(),
        };
        let conversation = Conversation { id, told: digest(system), used };
        // Nothing in it can fail to be written.
        serde_json::to_string(&conversation).unwrap_or_default()
    }
}

impl Used {
    /// What this turn used, where `sum` is what a program says that the whole conversation has used. One that began to count
    /// anew tells less than before.
    pub(crate) fn since(self, sum: Usage) -> Usage {
        if sum.input_tokens < self.input_tokens || sum.output_tokens < self.output_tokens {
            return sum;
        }
        Usage {
            input_tokens: sum.input_tokens - self.input_tokens,
            output_tokens: sum.output_tokens - self.output_tokens,
            cost_usd: sum.cost_usd.map(|cost| self.cost_since(cost)),
        }
    }

    pub(crate) fn cost_since(self, sum: f64) -> f64 {
        if sum < self.cost_usd { sum } else { sum - self.cost_usd }
    }
}

fn digest(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input_tokens: u64, output_tokens: u64, cost_usd: Option<f64>) -> Usage {
        Usage { input_tokens, output_tokens, cost_usd }
    }

    #[test]
    fn it_goes_on_as_long_as_the_agent_is_told_the_same() {
        let kept = Conversation::kept("abc".to_owned(), "be good", Used::default(), usage(20, 10, Some(0.5)));
        let resumed = Conversation::resumed(Some(&kept), "be good").unwrap();
        assert_eq!((resumed.id.as_str(), resumed.used.input_tokens), ("abc", 20));
        assert_eq!(Conversation::resumed(Some(&kept), "be better"), None);
        assert_eq!(Conversation::resumed(Some("an older form"), "be good"), None);
        assert_eq!(Conversation::resumed(None, "be good"), None);
    }

    #[test]
    fn sums_over_a_conversation_become_the_part_of_a_turn() {
        let before = Used { input_tokens: 20, output_tokens: 10, cost_usd: 0.5 };
        assert_eq!(before.since(usage(30, 15, Some(0.75))), usage(10, 5, Some(0.25)));
        assert_eq!(before.since(usage(10, 5, None)), usage(10, 5, None));
    }
}
