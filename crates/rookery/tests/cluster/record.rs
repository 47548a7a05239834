//! A reader that follows the log by a stream, from the first event on, and resumes whenever the stream ends.

use std::time::Duration;

use anyhow::{Context, ensure};
use rookery_testkit::stream::{Follower, StreamEvent};
use rookery_testkit::wait::within;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::nodes::{Addresses, Shared, lock};

const TRY_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Where a reader goes on after its stream has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loyalty {
    /// At the same node, when it is back.
    Stays,
    /// At the next node; and it cuts its stream by itself after so many events.
    Wanders { after: usize },
}

/// Records in the background until it is dropped.
#[derive(Debug)]
pub struct Recorder {
    sent: Shared<Vec<StreamEvent>>,
    count: watch::Receiver<usize>,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Recorder {
    /// Follows the node with this number.
    pub fn start(addresses: Addresses, at: usize, loyalty: Loyalty) -> Recorder {
        let sent = Shared::default();
        let (counted, count) = watch::channel(0);
        let recording = Recording { addresses, at, loyalty, sent: sent.clone(), counted };
        Recorder { sent, count, task: tokio::spawn(recording.run()) }
    }

    /// One for every node, and one that wanders between them.
    pub fn everywhere(addresses: &Addresses) -> Vec<Recorder> {
        let staying = (0..addresses.count()).map(|at| Recorder::start(addresses.clone(), at, Loyalty::Stays));
        let wandering = Recorder::start(addresses.clone(), 0, Loyalty::Wanders { after: 97 });
        staying.chain([wandering]).collect()
    }

    /// Everything up to this place in the log, as it was sent.
    pub async fn upto(mut self, seq: usize) -> anyhow::Result<Vec<StreamEvent>> {
        let waiting = async {
            tokio::select! {
                reached = self.count.wait_for(|count| *count >= seq) => reached.map(drop).context("nobody records"),
                ended = &mut self.task => ended?.context("a stream cannot be followed"),
            }
        };
        within("the streams come up to the log", waiting).await??;
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
    loyalty: Loyalty,
    sent: Shared<Vec<StreamEvent>>,
    counted: watch::Sender<usize>,
}

impl Recording {
    async fn run(mut self) -> anyhow::Result<()> {
        loop {
            let last = lock(&self.sent).last().map(|sent| sent.id.clone());
            // One that cannot be opened now is opened later: the node or its database is away.
            match Follower::open(&self.addresses.of(self.at), "?after=0", last.as_deref()).await {
                Ok(follower) => self.follow(follower).await?,
                Err(_) => tokio::time::sleep(TRY_AGAIN_AFTER).await,
            }
            if let Loyalty::Wanders { .. } = self.loyalty {
                self.at = (self.at + 1) % self.addresses.count();
            }
        }
    }

    /// Takes what is sent until the stream ends, or is cut by us.
    async fn follow(&self, mut follower: Follower) -> anyhow::Result<()> {
        let mut count = 0;
        while let Some(sent) = follower.next().await? {
            let mut all = lock(&self.sent);
            let wanted = all.len() as u64 + 1;
            ensure!(sent.seq == wanted, "a stream sent {} where {wanted} belongs", sent.seq);
            all.push(sent);
            self.counted.send_replace(all.len());
            count += 1;
            if matches!(self.loyalty, Loyalty::Wanders { after } if count == after) {
                break;
            }
        }
        Ok(())
    }
}
