//! A store that was taken over by a newer version of the program.

use anyhow::ensure;
use rookery_testkit::postgres::Schema;

use crate::nodes::{Nodes, code, duties_rest, note, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_node_reads_on_says_so_and_leaves_its_duties_to_others() -> anyhow::Result<()> {
    let schema = Schema::new()?;
    let nodes = Nodes::start(&[schema.url(), schema.url()]).await?;
    ensure!(note(&nodes[0], "lead", "before").await?.status == 201);
    schema.psql("UPDATE log_head SET schema = 99")?;
    let refused = note(&nodes[0], "lead", "after").await?;
    ensure!(refused.status == 503 && code(&refused) == "STORE_UNAVAILABLE", "{refused:?}");
    ensure!(text(&refused.body["error"])?.contains("update this node"), "{refused:?}");
    for path in ["/events", "/tasks", "/status"] {
        let read = nodes[0].get(path).await?;
        ensure!(read.status == 200, "{path}: {read:?}");
    }
    let ready = nodes[0].get("/readyz").await?;
    ensure!(ready.status == 503 && text(&ready.body["error"])?.contains("update this node"), "{ready:?}");
    // The other one is as old, and hears of it without writing: a duty in its hands would be done by nobody.
    duties_rest(&nodes[1]).await
}
