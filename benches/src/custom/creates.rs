//! Rate of creates of custom objects beside creates of ConfigMaps of the same size, in turns on one server,
//! by 64 clients.

use super::{CONFIG_MAPS, Collection, bytes, define, definition};
use crate::binary::Binary;
use crate::connection::Connection;
use crate::limits::{CONNECTIONS, CUSTOM_REPEAT, CUSTOM_TURNS};
use crate::process::{Server, Storage};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Rates of creates of custom objects, relative to ConfigMaps.
pub(crate) struct Rates {
    /// ConfigMaps created per second.
    pub(crate) config_maps: f64,
    /// Rate of a kind without rules, relative to ConfigMaps.
    pub(crate) plain: f64,
    /// Rate of the same kind with three rules, relative to ConfigMaps.
    pub(crate) ruled: f64,
}

/// Measures the three rates, each [`CUSTOM_TURNS`] times.
pub(crate) async fn rates(binary: &Binary) -> anyhow::Result<Rates> {
    let server = Server::start(binary, Storage::Memory).await?;
    for definition in [definition::of_plain(), definition::of_ruled()] {
        define(&server, &definition).await?;
    }
    let collections = [CONFIG_MAPS, definition::PLAIN, definition::RULED];
    let mut created = [0, 0, 0];
    let mut seconds = [0.0, 0.0, 0.0];
    for round in 0..CUSTOM_TURNS {
        // Every second turn runs backwards, since a server with more objects may be slower.
        for step in 0..collections.len() {
            let at = if round % 2 == 0 { step } else { collections.len() - 1 - step };
            let started = Instant::now();
            created[at] += create_concurrently(&server, collections[at], round).await?;
            seconds[at] += started.elapsed().as_secs_f64();
        }
    }
    server.kill().await?;
    let rate = |at: usize| created[at] as f64 / seconds[at];
    Ok(Rates { config_maps: rate(0), plain: rate(1) / rate(0), ruled: rate(2) / rate(0) })
}

/// Creates objects with [`CONNECTIONS`] concurrent clients. Returns their number.
async fn create_concurrently(server: &Server, collection: Collection, round: usize) -> anyhow::Result<usize> {
    let mut clients = JoinSet::new();
    for client in 0..CONNECTIONS {
        clients.spawn(create(server.connect().await?, collection, format!("t{round}-{client}")));
    }
    let mut created = 0;
    while let Some(client) = clients.join_next().await {
        created += client??;
    }
    Ok(created)
}

async fn create(mut connection: Connection, collection: Collection, prefix: String) -> anyhow::Result<usize> {
    let mut created = 0;
    let started = Instant::now();
    while started.elapsed() < CUSTOM_REPEAT {
        let object = (collection.object)(&format!("{prefix}-{created}"));
        connection.create(collection.path, bytes(&object)).await?;
        created += 1;
    }
    Ok(created)
}
