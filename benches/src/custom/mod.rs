//! Measurements of custom resources: definitions, custom objects beside ConfigMaps, OpenAPI of many kinds, a
//! webhook. Each file is one measurement; `gate` holds the bounds.

mod creates;
pub(crate) mod definition;
mod documents;
mod many;
mod reads;
mod visible;
mod webhook;

use crate::connection::Connection;
use crate::process::Server;
use bytes::Bytes;
pub(crate) use creates::{Rates, rates};
pub(crate) use documents::{Documents, documents};
pub(crate) use many::{Many, many};
pub(crate) use reads::{Reads, reads};
use serde_json::{Value, json};
pub(crate) use visible::{Visible, visible};
pub(crate) use webhook::overhead;

/// Collection path of definitions.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Flags of the measured servers: no controllers, whose work is measured elsewhere.
const APISERVER: [&str; 2] = ["--components", "apiserver"];

/// A kind with objects of about one kibibyte: its collection path and the function that makes an object.
#[derive(Clone, Copy)]
struct Collection {
    path: &'static str,
    object: fn(&str) -> Value,
}

/// ConfigMaps, the baseline of comparisons.
const CONFIG_MAPS: Collection = Collection { path: crate::writes::CONFIG_MAPS, object: config_map };

fn config_map(name: &str) -> Value {
    let data = json!({"value": definition::text(), "host": "web.example.com", "replicas": "3"});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn bytes(object: &Value) -> Bytes {
    Bytes::from(object.to_string())
}

/// Creates definitions of about 36 KB with these numbers, over one connection.
pub(crate) async fn define_large(
    connection: &mut Connection,
    numbers: std::ops::Range<usize>,
) -> anyhow::Result<()> {
    for index in numbers {
        let definition = definition::large(index, crate::limits::DEFINITIONS_PER_GROUP);
        connection.create(DEFINITIONS, bytes(&definition)).await?;
    }
    Ok(())
}

/// Creates a definition.
async fn define(server: &Server, definition: &Value) -> anyhow::Result<()> {
    server.connect().await?.create(DEFINITIONS, bytes(definition)).await?;
    Ok(())
}
