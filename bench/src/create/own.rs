//! Our store, called in this process.

use std::path::Path;
use std::sync::Arc;

use rookery_store::Store;
use rookery_store::sqlite::SqliteStore;
use tokio::runtime::Runtime;

use super::MOST;
use crate::sample::Client;
use crate::work::{self, Order};

#[derive(Debug)]
pub(super) struct Own {
    store: Arc<SqliteStore>,
}

#[derive(Debug)]
pub(super) struct OwnClient {
    store: Arc<SqliteStore>,
    order: Order,
}

impl Own {
    pub(super) fn open(folder: &Path, load: &Runtime) -> anyhow::Result<Own> {
        let store = work::open(&folder.join("own.db"))?;
        load.block_on(work::announce(&store, MOST))?;
        Ok(Own { store: Arc::new(store) })
    }

    pub(super) fn clients(&self, count: usize) -> Vec<OwnClient> {
        (0..count).map(|at| OwnClient { store: self.store.clone(), order: Order::by(at) }).collect()
    }

    pub(super) async fn close(&self) {
        self.store.close().await;
    }
}

impl Client for OwnClient {
    async fn act(&mut self) -> anyhow::Result<()> {
        self.store.submit(self.order.create(work::mint())).await?;
        Ok(())
    }
}
