//! OpenAPI with a hundred large definitions: the first answer of each document, and the first after a change
//! of one definition.

use super::{APISERVER, DEFINITIONS, bytes, definition};
use crate::binary::Binary;
use crate::connection::Connection;
use crate::limits::{DOCUMENT_DEFINITIONS, DOCUMENT_SERVERS};
use crate::process::{Server, Storage};
use crate::spread::Spread;
use anyhow::{Context, ensure};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// Latencies of OpenAPI documents.
pub(crate) struct Documents {
    /// First request of the version 3 document of a group and version.
    pub(crate) v3_first: Spread,
    /// Second request of the same document.
    pub(crate) v3_again: Spread,
    /// First request of the version 2 document.
    pub(crate) v2_first: Spread,
    /// First request of the version 2 document after a schema change.
    pub(crate) v2_changed: Spread,
}

/// Reads documents of [`DOCUMENT_DEFINITIONS`] definitions on [`DOCUMENT_SERVERS`] servers, one after the
/// other.
pub(crate) async fn documents(binary: &Binary) -> anyhow::Result<Documents> {
    let (mut v3_first, mut v3_again, mut v2_first, mut v2_changed) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..DOCUMENT_SERVERS {
        let server = Server::start_with(binary, Storage::Memory, &APISERVER).await?;
        let mut connection = server.connect().await?;
        for index in 0..DOCUMENT_DEFINITIONS {
            connection.create(DEFINITIONS, bytes(&definition::large(index, 1))).await?;
        }
        v2_first.push(read_v2(&mut connection).await?);
        let (_, paths) = read(&mut connection, "/openapi/v3").await?;
        let paths: Value = serde_json::from_slice(&paths)?;
        for index in 0..DOCUMENT_DEFINITIONS {
            let of_group = &paths["paths"][format!("apis/{}/v1", definition::group(index, 1))];
            let path = of_group["serverRelativeURL"].as_str().context("the group is not in the index")?;
            v3_first.push(read(&mut connection, path).await?.0);
            v3_again.push(read(&mut connection, path).await?.0);
        }
        for index in 0..DOCUMENT_DEFINITIONS / 10 {
            let name = format!("{}.{}", definition::plural(index), definition::group(index, 1));
            let mut next = definition::large(index, 1);
            let spec = &mut next["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
            spec["properties"]["changed"] = json!({"type": "string"});
            let patch = bytes(&json!({"spec": next["spec"]}));
            connection.patch(&format!("{DEFINITIONS}/{name}"), patch).await?;
            v2_changed.push(read_v2(&mut connection).await?);
        }
        server.kill().await?;
    }
    let [v3_first, v3_again, v2_first, v2_changed] =
        [v3_first, v3_again, v2_first, v2_changed].map(Spread::of);
    Ok(Documents { v3_first, v3_again, v2_first, v2_changed })
}

/// Reads the document in gzip, as Go's clients do. Uncompressed, it has five megabytes, and TLS on both sides
/// would dominate the time.
async fn read_v2(connection: &mut Connection) -> anyhow::Result<Duration> {
    let sent = Instant::now();
    connection.get_compressed("/openapi/v2").await?;
    Ok(sent.elapsed())
}

async fn read(connection: &mut Connection, path: &str) -> anyhow::Result<(Duration, bytes::Bytes)> {
    let sent = Instant::now();
    let (status, body) = connection.get(path).await?;
    let took = sent.elapsed();
    ensure!(status == 200, "{path}: {status}");
    Ok((took, body))
}
