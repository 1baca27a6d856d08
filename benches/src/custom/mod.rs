//! Custom resources measured: definitions, objects of custom kinds beside ConfigMaps, OpenAPI of many kinds, a webhook. Each file is one
//! measurement; the bounds are the gate's.

mod creates;
pub(crate) mod definition;
mod documents;
mod many;
mod reads;
mod visible;
mod webhook;

pub(crate) use creates::{Rates, rates};
pub(crate) use documents::{Documents, documents};
pub(crate) use many::{Many, many};
pub(crate) use reads::{Reads, reads};
pub(crate) use visible::{Visible, visible};
pub(crate) use webhook::overhead;

use crate::process::Server;
use bytes::Bytes;
use serde_json::{Value, json};

/// Where definitions are.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Servers of these measurements run no controllers: their work is measured elsewhere.
const APISERVER: [&str; 2] = ["--components", "apiserver"];

/// A kind of objects of about one kibibyte: its collection, and how an object is made.
#[derive(Clone, Copy)]
struct Collection {
    path: &'static str,
    object: fn(&str) -> Value,
}

/// ConfigMaps, which custom objects are compared with.
const CONFIG_MAPS: Collection = Collection { path: crate::writes::CONFIG_MAPS, object: config_map };

fn config_map(name: &str) -> Value {
    let data = json!({"value": definition::text(), "host": "web.example.com", "replicas": "3"});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn bytes(object: &Value) -> Bytes {
    Bytes::from(object.to_string())
}

/// Creates a definition.
async fn define(server: &Server, definition: &Value) -> anyhow::Result<()> {
    server.connect().await?.create(DEFINITIONS, bytes(definition)).await?;
    Ok(())
}
