//! What an agent offers, read once: words become numbers, so that a choice compares no texts.

use std::collections::HashMap;

use crate::model::capabilities::{Card, CostHint, tool_name};
use crate::model::policy::{Network, TrustLevel};
use crate::model::version::CapabilityVersion;

/// Words by number. Numbers say nothing but whether two words are the same.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    known: HashMap<Box<str>, Word>,
}

pub(super) type Word = u32;

impl Interner {
    pub(super) fn find(&self, text: &str) -> Option<Word> {
        self.known.get(text).copied()
    }

    fn learn(&mut self, text: &str) -> Word {
        if let Some(word) = self.find(text) {
            return word;
        }
        let word = u32::try_from(self.known.len()).unwrap_or(Word::MAX);
        self.known.insert(text.into(), word);
        word
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }
}

#[derive(Debug)]
pub(super) struct AgentOffer {
    /// By word.
    skills: Box<[OfferedSkill]>,
    tags: Box<[Word]>,
    tools: Box<[Word]>,
    pub(super) sandboxed: bool,
    pub(super) network: Network,
    pub(super) max_concurrency: Option<u32>,
    /// The highest of any capability.
    pub(super) trust: TrustLevel,
    pub(super) cost: CostHint,
}

#[derive(Debug)]
pub(super) struct OfferedSkill {
    word: Word,
    pub(super) stated: CapabilityVersion,
    pub(super) trust: TrustLevel,
    pub(super) cost: CostHint,
    /// The tools that it needs.
    pub(super) needs: Box<[Word]>,
}

impl AgentOffer {
    pub(super) fn of(card: &Card, words: &mut Interner) -> AgentOffer {
        let capabilities = &card.capabilities;
        let skills = capabilities.iter().map(|capability| OfferedSkill {
            word: words.learn(&capability.id),
            stated: capability.stated(),
            trust: capability.trust(),
            cost: capability.cost_hint.unwrap_or_default(),
            needs: sorted(capability.tools.iter().map(|tool| words.learn(tool_name(tool)))),
        });
        let mut skills: Box<[OfferedSkill]> = skills.collect();
        skills.sort_by_key(|skill| skill.word);
        AgentOffer {
            skills,
            tags: sorted(capabilities.iter().flat_map(|capability| &capability.tags).map(|tag| words.learn(tag))),
            tools: sorted(card.tools().map(|tool| words.learn(tool))),
            sandboxed: card.security.sandbox == Some(true),
            network: card.network(),
            max_concurrency: card.limits.max_concurrency,
            trust: capabilities.iter().map(|capability| capability.trust()).max().unwrap_or(TrustLevel::Sandbox),
            cost: capabilities.iter().filter_map(|capability| capability.cost_hint).max().unwrap_or_default(),
        }
    }

    /// The capabilities of that id; several if it has several versions.
    pub(super) fn skills(&self, word: Word) -> &[OfferedSkill] {
        let from = self.skills.partition_point(|skill| skill.word < word);
        let count = self.skills[from..].partition_point(|skill| skill.word == word);
        &self.skills[from..from + count]
    }

    pub(super) fn is_tagged(&self, word: Word) -> bool {
        self.tags.binary_search(&word).is_ok()
    }

    pub(super) fn has_tool(&self, word: Word) -> bool {
        self.tools.binary_search(&word).is_ok()
    }

    /// How many words it keeps in use.
    pub(super) fn words(&self) -> usize {
        let needs: usize = self.skills.iter().map(|skill| skill.needs.len()).sum();
        self.skills.len() + needs + self.tags.len() + self.tools.len()
    }
}

fn sorted(words: impl Iterator<Item = Word>) -> Box<[Word]> {
    let mut words: Vec<Word> = words.collect();
    words.sort_unstable();
    words.dedup();
    words.into_boxed_slice()
}
