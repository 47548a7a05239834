//! A tool and a prompt that come and go, so that there are changes of the lists to tell.

use rmcp::model::{PromptListChangedNotification, ServerNotification, ToolListChangedNotification};
use tokio::sync::watch;

/// Which of the two are there.
#[derive(Clone, Copy, Default)]
pub struct Extras {
    pub tool: bool,
    pub prompt: bool,
}

/// What one client knows of them.
#[derive(Clone)]
pub struct Following {
    extras: watch::Receiver<Extras>,
    known: Extras,
}

impl Following {
    pub fn new(extras: &watch::Sender<Extras>) -> Following {
        let extras = extras.subscribe();
        let known = *extras.borrow();
        Following { extras, known }
    }

    /// What the client does not know yet; waits until there is something, and is `None` when nothing will come.
    pub async fn next(&mut self) -> Option<Vec<ServerNotification>> {
        self.extras.changed().await.ok()?;
        let (now, known) = (*self.extras.borrow_and_update(), self.known);
        self.known = now;
        let mut news = vec![];
        if now.tool != known.tool {
            news.push(ServerNotification::ToolListChangedNotification(ToolListChangedNotification::default()));
        }
        if now.prompt != known.prompt {
            news.push(ServerNotification::PromptListChangedNotification(PromptListChangedNotification::default()));
        }
        Some(news)
    }
}
