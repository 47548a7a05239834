//! Finding the daemon: the one that runs, or the one that is started because a call needs it.

use std::time::Duration;

use rookery_client::{Client, Proof, session_key};

use crate::cli::context::{self, Start};
use crate::config::Flags;
use crate::project::Project;

/// A daemon that restarts is back within this time; only then is another one started.
const GRACE: Duration = Duration::from_secs(3);
/// Long enough for one request and a stream that it opens.
const SESSION_LASTS: Duration = Duration::from_secs(24 * 60 * 60);
const POLL: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct Home {
    pub project: Project,
    pub start: Start,
    /// The agent's own token, or the key of the session it was started in. Never the person's key: an agent is not a person.
    pub proof: Proof,
}

impl Home {
    /// The daemon that answers now, or one that is started.
    pub async fn find_or_start(&self) -> anyhow::Result<Client> {
        match self.find().await {
            Ok(client) => Ok(client),
            Err(error) if self.start == Start::Never => Err(error),
            Err(_) => {
                context::start(&self.project, &Flags::default()).await?;
                self.find().await
            }
        }
    }

    /// For a call that waits: gives a daemon that restarts its time, then starts one if that is allowed.
    pub async fn find_again(&self) -> anyhow::Result<Client> {
        match tokio::time::timeout(GRACE, self.appear()).await {
            Ok(client) => Ok(client),
            Err(_) if self.start == Start::IfNeeded => self.find_or_start().await,
            Err(_) => Ok(self.appear().await),
        }
    }

    /// Waits until a daemon answers, however long that takes.
    pub async fn appear(&self) -> Client {
        loop {
            if let Ok(client) = self.find().await {
                return client;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// A key for the session of the agent that is at the other end, if it brought no proof of its own. Made anew for every
    /// request, so that it need not last.
    pub fn session(&self, agent: &str) -> Option<String> {
        if self.proof != Proof::Nothing {
            return None;
        }
        let person_key = self.project.person_key().ok()??;
        Some(session_key(&person_key, agent, SESSION_LASTS))
    }

    async fn find(&self) -> anyhow::Result<Client> {
        let running = context::find(&self.project).await?;
        Ok(running.client.with_proof(self.proof.clone()))
    }
}
