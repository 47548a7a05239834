//! A program's own conversation, in the form that is kept between turns and over restarts of the runner.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::backend::Usage;

/// The id of a conversation, a digest of its instructions, and its usage.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct ProgramConversation {
    /// The program's id for it.
    pub id: String,
    /// Digest of the system prompt that it started with. Programs keep that prompt to the end of a conversation, so another
    /// prompt needs another conversation.
    #[serde(rename = "told")]
    pub system_digest: String,
    /// Usage so far: some programs report sums over the whole conversation.
    #[serde(default)]
    pub used: ConversationUsage,
}

#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ConversationUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: f64,
}

impl ProgramConversation {
    /// The conversation to resume, if it started with the same system prompt.
    pub(crate) fn resume(kept: Option<&str>, system: &str) -> Option<ProgramConversation> {
        let conversation: ProgramConversation = serde_json::from_str(kept?).ok()?;
        (conversation.system_digest == digest(system)).then_some(conversation)
    }

    /// Serializes the conversation for the next turn.
    pub(crate) fn to_stored(id: String, system: &str, before: ConversationUsage, usage: Usage) -> String {
        let used = ConversationUsage {
            input_tokens: before.input_tokens.saturating_add(usage.input_tokens),
            output_tokens: before.output_tokens.saturating_add(usage.output_tokens),
            cost_usd: before.cost_usd + usage.cost_usd.unwrap_or_default(),
        };
        let conversation = ProgramConversation { id, system_digest: digest(system), used };
        // Serialization of this type cannot fail.
        serde_json::to_string(&conversation).unwrap_or_default()
    }
}

impl ConversationUsage {
    /// Usage of this turn, where `sum` is the program's sum over the whole conversation. A sum that is lower than before means
    /// that the program started to count again.
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
    fn conversation_is_resumed_while_the_system_prompt_is_the_same() {
        let kept = ProgramConversation::to_stored(
            "abc".to_owned(),
            "be good",
            ConversationUsage::default(),
            usage(20, 10, Some(0.5)),
        );
        let resumed = ProgramConversation::resume(Some(&kept), "be good").unwrap();
        assert_eq!((resumed.id.as_str(), resumed.used.input_tokens), ("abc", 20));
        assert_eq!(ProgramConversation::resume(Some(&kept), "be better"), None);
        assert_eq!(ProgramConversation::resume(Some("an older form"), "be good"), None);
        assert_eq!(ProgramConversation::resume(None, "be good"), None);
    }

    #[test]
    fn sum_over_a_conversation_yields_usage_of_the_turn() {
        let before = ConversationUsage { input_tokens: 20, output_tokens: 10, cost_usd: 0.5 };
        assert_eq!(before.since(usage(30, 15, Some(0.75))), usage(10, 5, Some(0.25)));
        assert_eq!(before.since(usage(10, 5, None)), usage(10, 5, None));
    }
}
