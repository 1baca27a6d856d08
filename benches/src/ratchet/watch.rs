//! One change, sent to a hundred REST watches of a collection, whose bytes are read.

use super::requests::{api_alone, config_map};
use super::virtual_time::in_virtual_time;
use crate::writes::CONFIG_MAPS;
use anyhow::ensure;

const WATCHERS: usize = 100;

/// A merge patch of a ConfigMap with 1 KiB of data, and the event at each watcher.
pub(super) fn run(times: u64) -> anyhow::Result<()> {
    in_virtual_time(async {
        let (_cluster, rest) = api_alone().await;
        rest.create(CONFIG_MAPS, config_map("map")).await?;
        let list = rest.get(&format!("{CONFIG_MAPS}?limit=1")).await?;
        let list: serde_json::Value = serde_json::from_slice(&list)?;
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let mut watches = Vec::new();
        for _ in 0..WATCHERS {
            let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={revision}");
            watches.push(rest.watch(&path).await?);
        }
        let map = format!("{CONFIG_MAPS}/map");
        for number in 0..times {
            let patch = format!(r#"{{"data":{{"number":"{number:05}"}}}}"#);
            rest.call("PATCH", &map, "application/merge-patch+json", patch).await?;
            for watch in &mut watches {
                ensure!(watch.line().await? > 1_000, "the whole object");
            }
        }
        Ok(())
    })
}
