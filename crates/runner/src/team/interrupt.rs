//! How the process of a team is told to end: for good, or so that another process goes on with the team.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// What becomes of a team whose process is told to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// A person does not want it any more.
    ForGood,
    /// The machine goes down, or the terminal is gone: whoever starts the team again goes on with it.
    ForNow,
}

/// Told by whoever gets the signals, heard by everything that a team is at.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    token: CancellationToken,
    ending: Arc<OnceLock<Ending>>,
}

impl Interrupt {
    /// Tells it. What was told first counts; false if that was before.
    pub fn tell(&self, ending: Ending) -> bool {
        let is_first = self.ending.set(ending).is_ok();
        self.token.cancel();
        is_first
    }

    /// Returns when it was told.
    pub(super) async fn told(&self) -> Ending {
        self.token.cancelled().await;
        self.ending.get().copied().unwrap_or(Ending::ForGood)
    }

    pub(super) fn token(&self) -> &CancellationToken {
        &self.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_word_counts() {
        let interrupt = Interrupt::default();
        assert!(interrupt.tell(Ending::ForNow));
        assert!(!interrupt.clone().tell(Ending::ForGood));
        assert_eq!(interrupt.told().await, Ending::ForNow);
        assert!(interrupt.token().is_cancelled());
    }
}
