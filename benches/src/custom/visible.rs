//! Time until a new definition is usable: from the request to its answer, which has the condition Established
//! at a revision, to the kind in discovery, in the OpenAPI index, and in a watch from that revision. Also the
//! time of its deletion.

use super::{APISERVER, DEFINITIONS, bytes, definition};
use crate::binary::Binary;
use crate::limits::{VISIBLE_DEFINITIONS, VISIBLE_RULES};
use crate::process::{Server, Storage};
use crate::spread::Spread;
use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::time::Instant;

/// Times of definitions created one after the other, each in its own group.
pub(crate) struct Visible {
    /// From POST to the last of discovery, OpenAPI index and watch.
    pub(crate) usable: Spread,
    /// From DELETE of a definition without objects to the DELETED event of its own watch.
    pub(crate) deleted: Spread,
}

/// Creates and deletes [`VISIBLE_DEFINITIONS`] definitions with [`VISIBLE_RULES`] rules each.
pub(crate) async fn visible(binary: &Binary) -> anyhow::Result<Visible> {
    let server = Server::start_with(binary, Storage::Memory, &APISERVER).await?;
    let mut connection = server.connect().await?;
    let (mut usable, mut deleted) = (Vec::new(), Vec::new());
    for index in 0..VISIBLE_DEFINITIONS {
        let (group, plural) = (definition::group(index, 1), definition::plural(index));
        let body = bytes(&definition::with_rules(index, VISIBLE_RULES));
        let watching = server.connect().await?;
        let objects = format!("/apis/{group}/v1/namespaces/default/{plural}");
        let sent = Instant::now();
        let answer = connection.create(DEFINITIONS, body).await?;
        let answer: Value = serde_json::from_slice(&answer)?;
        let version = answer["metadata"]["resourceVersion"].as_str().context("no resourceVersion")?;
        let mut watch = watching.stream(&format!("{objects}?watch=1&resourceVersion={version}")).await?;
        let resources = connection.get(&format!("/apis/{group}/v1")).await?;
        let paths = connection.get("/openapi/v3").await?;
        usable.push(sent.elapsed());
        let conditions = answer["status"]["conditions"].as_array().context("no conditions")?;
        let is_established =
            |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
        ensure!(conditions.iter().any(is_established), "not established: {answer}");
        ensure!(text(&resources.1).contains(&format!("\"{plural}\"")), "not in discovery: {plural}");
        ensure!(text(&paths.1).contains(&format!("\"apis/{group}/v1\"")), "not in the index: {group}");
        let object = json!({"apiVersion": format!("{group}/v1"), "kind": format!("Thing{index}"),
            "metadata": {"name": "a"}, "spec": {"part0": {"name": "a", "count": 1}}});
        connection.create(&objects, bytes(&object)).await?;
        let event = watch.line().await?.context("the watch has ended")?;
        ensure!(text(&event).contains("ADDED"), "{}", text(&event));
        connection.delete(&format!("{objects}/a")).await?;

        let name = format!("{plural}.{group}");
        let watching =
            format!("{DEFINITIONS}?watch=1&fieldSelector=metadata.name%3D{name}&resourceVersion={version}");
        let mut ends = server.connect().await?.stream(&watching).await?;
        let sent = Instant::now();
        connection.delete(&format!("{DEFINITIONS}/{name}")).await?;
        while !text(&ends.line().await?.context("the watch has ended")?).starts_with("{\"type\":\"DELETED\"")
        {
        }
        deleted.push(sent.elapsed());
        // The next definition is created beside others, as on a real server.
        connection.create(DEFINITIONS, bytes(&definition::with_rules(index, VISIBLE_RULES))).await?;
    }
    server.kill().await?;
    Ok(Visible { usable: Spread::of(usable), deleted: Spread::of(deleted) })
}

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
