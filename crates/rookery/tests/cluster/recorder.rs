//! A reader that follows the log by a stream from the first event, and resumes when the stream ends.

use std::time::Duration;

use anyhow::{Context, ensure};
use rookery_testkit::stream::{Follower, StreamEvent};
use rookery_testkit::wait::within;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::nodes::{Addresses, Shared, lock};

const RETRY_DELAY: Duration = Duration::from_millis(20);

/// The node at which a reader resumes after the end of its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResumeAt {
    /// The same node, when it is back.
    SameNode,
    /// The next node. The reader also ends its stream after this many events.
    NextNode { after: usize },
}

/// Records the events in the background until it is dropped.
#[derive(Debug)]
pub struct Recorder {
    sent: Shared<Vec<StreamEvent>>,
    count: watch::Receiver<usize>,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Recorder {
    /// Follows the node with this number.
    pub fn start(addresses: Addresses, at: usize, resume_at: ResumeAt) -> Recorder {
        let sent = Shared::default();
        let (counted, count) = watch::channel(0);
        let recording = Recording { addresses, at, resume_at, sent: sent.clone(), counted };
        Recorder { sent, count, task: tokio::spawn(recording.run()) }
    }

    /// Starts a recorder for every node, and one that moves between them.
    pub fn start_everywhere(addresses: &Addresses) -> Vec<Recorder> {
        let fixed = (0..addresses.count()).map(|at| Recorder::start(addresses.clone(), at, ResumeAt::SameNode));
        let moving = Recorder::start(addresses.clone(), 0, ResumeAt::NextNode { after: 97 });
        fixed.chain([moving]).collect()
    }

    /// Waits for the events up to this seq, and returns them.
    pub async fn events_up_to(mut self, seq: usize) -> anyhow::Result<Vec<StreamEvent>> {
        let waiting = async {
            tokio::select! {
                reached = self.count.wait_for(|count| *count >= seq) => reached.map(drop).context("the recorder has ended"),
                ended = &mut self.task => ended?.context("the recorder has failed"),
            }
        };
        within("the streams to reach the end of the log", waiting).await??;
        Ok(lock(&self.sent).clone())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Recording {
    addresses: Addresses,
    at: usize,
    resume_at: ResumeAt,
    sent: Shared<Vec<StreamEvent>>,
    counted: watch::Sender<usize>,
}

impl Recording {
    async fn run(mut self) -> anyhow::Result<()> {
        loop {
            let last = lock(&self.sent).last().map(|sent| sent.id.clone());
            // Fails while the node or its database is down; the next attempt may succeed.
            match Follower::open(&self.addresses.of(self.at), "?after=0", last.as_deref()).await {
                Ok(follower) => self.follow(follower).await?,
                Err(_) => tokio::time::sleep(RETRY_DELAY).await,
            }
            if let ResumeAt::NextNode { .. } = self.resume_at {
                self.at = (self.at + 1) % self.addresses.count();
            }
        }
    }

    /// Records events until the stream ends, or this reader ends it.
    async fn follow(&self, mut follower: Follower) -> anyhow::Result<()> {
        let mut count = 0;
        while let Some(sent) = follower.next().await? {
            let mut all = lock(&self.sent);
            let wanted = all.len() as u64 + 1;
            ensure!(sent.seq == wanted, "a stream sent seq {}, expected {wanted}", sent.seq);
            all.push(sent);
            self.counted.send_replace(all.len());
            count += 1;
            if matches!(self.resume_at, ResumeAt::NextNode { after } if count == after) {
                break;
            }
        }
        Ok(())
    }
}
