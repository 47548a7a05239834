//! A store that a newer version of the program has migrated.

use anyhow::ensure;
use rookery_testkit::postgres::Schema;

use crate::nodes::{Nodes, code, note, text, wait_for_no_leader};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outdated_node_after_migration_reads_and_gives_up_leader_roles() -> anyhow::Result<()> {
    let schema = Schema::new()?;
    let nodes = Nodes::start(&[schema.url(), schema.url()]).await?;
    ensure!(note(&nodes[0], "lead", "before").await?.status == 201);
    schema.psql("UPDATE log_head SET schema = 99")?;
    let rejected = note(&nodes[0], "lead", "after").await?;
    ensure!(rejected.status == 503 && code(&rejected) == "STORE_UNAVAILABLE", "{rejected:?}");
    ensure!(text(&rejected.body["error"])?.contains("update this node"), "{rejected:?}");
    for path in ["/events", "/tasks", "/status"] {
        let read = nodes[0].get(path).await?;
        ensure!(read.status == 200, "{path}: {read:?}");
    }
    let ready = nodes[0].get("/readyz").await?;
    ensure!(ready.status == 503 && text(&ready.body["error"])?.contains("update this node"), "{ready:?}");
    // The other node is outdated too, and notices without a write. It must not keep roles whose work it cannot do.
    wait_for_no_leader(&nodes[1]).await
}
