//! The task that follows the stored flow schemas and priority levels, restores the built-in ones, and lets
//! levels lend seats. This server's own writes are applied before they are answered; the task applies those of
//! other servers.

use super::{Pipeline, row_of};
use crate::fairness::Fairness;
use futures::future::BoxFuture;
use kstore_api::flowcontrol::{self, Upkeep};
use kstore_api::resource::Resource;
use kstore_api::{kind, meta};
use kstore_registry::cache::{Cache, Filter, Watch, WatchEnd, WatchStart};
use kstore_registry::lookup::Lookup as _;
use kstore_registry::request::{Action, Body, Target, WriteOptions, own_request};
use kstore_storage::limits::{RESTORE_PAUSE, SEAT_PERIOD};
use serde_json::Value;
use std::sync::Arc;
use tokio::time::{Instant, sleep_until};

/// Name of this task in the restart metric.
pub const TASK: &str = "fairness";

/// The field manager of restored objects.
const MANAGER: &str = "api-priority-and-fairness-config-producer-v1";

fn rows() -> [&'static Resource; 2] {
    ["flowschemas", "prioritylevelconfigurations"].map(|plural| {
        kind::lookup(flowcontrol::GROUP, "v1", plural).expect("flow control is in the table of kinds")
    })
}

/// Applies the stored objects.
pub(crate) fn configure(fairness: &Fairness, cache: &Cache) {
    let [schemas, levels] = rows().map(|row| cache.list(row, ""));
    fairness.configure(&schemas, &levels);
}

/// Keeps the configuration up to date until the storage closes.
/// Boxed here, so that no crate above generates the code again.
pub fn run(fairness: Arc<Fairness>, pipeline: Arc<Pipeline>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let cache = pipeline.cache();
        let mut watch = watch(cache).await;
        let mut period = Instant::now() + SEAT_PERIOD;
        // What an older version of this server has stored is brought up to date once.
        let (mut may_differ, mut next_restore) = (true, Instant::now());
        configure(&fairness, cache);
        loop {
            if may_differ && Instant::now() >= next_restore {
                // Another writer that reverts each restoration must not keep this server busy.
                (may_differ, next_restore) = (false, Instant::now() + RESTORE_PAUSE);
                restore(&pipeline).await;
            }
            tokio::select! {
                biased;
                () = sleep_until(period) => {
                    fairness.adjust();
                    period = Instant::now() + SEAT_PERIOD;
                }
                batch = watch.next() => {
                    may_differ = true;
                    match batch {
                        Ok(_) => {}
                        Err(WatchEnd::Closed) => return,
                        Err(_) => watch = self::watch(cache).await,
                    }
                    configure(&fairness, cache);
                }
            }
        }
    })
}

async fn watch(cache: &Arc<Cache>) -> Watch {
    let filters: Vec<Filter> = rows().into_iter().map(Filter::all).collect();
    let started = Watch::start(cache.clone(), filters.clone(), WatchStart::State).await;
    let mut watch = started.unwrap_or_else(|end| Watch::ended(cache.clone(), filters, end));
    drop(watch.initial());
    watch
}

/// Creates and updates built-in objects that differ from what they should be, and the conditions that depend on them.
async fn restore(pipeline: &Arc<Pipeline>) {
    let mut written = false;
    let minor = pipeline.cache().kinds().rows().opt_in().minor();
    for built_in in flowcontrol::objects_of(minor) {
        let (row, name) = (row_of(&built_in), meta::name(&built_in));
        let stored = pipeline.cache().get(row, &row.storage_key("", name)).map(|entry| entry.parse());
        let options = WriteOptions { field_manager: MANAGER.into(), ..WriteOptions::default() };
        let body = |object: &Value| {
            let bytes = serde_json::to_vec(object).expect("a value has string keys only");
            Body::json(bytes.into())
        };
        let action = match flowcontrol::upkeep(stored.as_ref(), &built_in) {
            Upkeep::Keep => continue,
            Upkeep::Create => Action::Create(body(&built_in), options),
            Upkeep::Update(object) => Action::Update(body(&object), options),
        };
        let of = match action {
            Action::Create(..) => "",
            _ => name,
        };
        let target = Target {
            resource: row,
            custom: None,
            subresource: "",
            namespace: String::new(),
            name: of.into(),
        };
        // After a conflict the change that caused it starts the next attempt.
        match Box::pin(pipeline.serve(own_request(target, action))).await {
            Ok(_) => written = true,
            Err(refused) => {
                tracing::warn!(kind = row.kind, name, status = %refused.status, "cannot restore a built-in object");
            }
        }
    }
    if written {
        Box::pin(pipeline.update_flow_schemas()).await;
    }
}
