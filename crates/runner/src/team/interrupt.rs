//! Interrupts the process of a team: either ends the team, or suspends it so that another process can resume it.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// The effect of an interrupt on the team.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InterruptKind {
    /// Ends the team, at a person's request.
    Stop,
    /// Ends the process only, because the machine shuts down or the terminal was closed. The next start resumes the team.
    Suspend,
}

/// A request to end the process, from its signal handlers to all parts of a team.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    token: CancellationToken,
    ending: Arc<OnceLock<InterruptKind>>,
}

impl Interrupt {
    /// Requests the end. Only the first request counts; returns whether this is it.
    pub fn request(&self, ending: InterruptKind) -> bool {
        let is_first = self.ending.set(ending).is_ok();
        self.token.cancel();
        is_first
    }

    /// Waits for a request.
    pub(super) async fn wait(&self) -> InterruptKind {
        self.token.cancelled().await;
        self.ending.get().copied().unwrap_or(InterruptKind::Stop)
    }

    pub(super) fn token(&self) -> &CancellationToken {
        &self.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn interrupt_keeps_the_first_request() {
        let interrupt = Interrupt::default();
        assert!(interrupt.request(InterruptKind::Suspend));
        assert!(!interrupt.clone().request(InterruptKind::Stop));
        assert_eq!(interrupt.wait().await, InterruptKind::Suspend);
        assert!(interrupt.token().is_cancelled());
    }
}
