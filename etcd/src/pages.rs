//! HTTP pages on the gRPC port: version, health and metrics. `metrics` writes the metrics.

use crate::calls::Calls;
use crate::metrics::{self, ExtraMetrics};
use crate::node::{CLUSTER_VERSION, Node, VERSION};
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use kstore_store::{Alarm, Range};
use std::collections::BTreeSet;

/// The state that the pages show.
#[derive(Clone)]
pub(crate) struct PageState {
    pub(crate) node: Node,
    pub(crate) calls: Calls,
    pub(crate) extra_metrics: ExtraMetrics,
}

/// A named health check.
type Check = (&'static str, fn(&Node) -> Result<(), String>);

const NON_LEARNER: Check = ("non_learner", |_| Ok(()));
const DATA_CORRUPTION: Check =
    ("data_corruption", |node| match node.store.alarms().contains(&Alarm::Corrupt) {
        true => Err("alarm activated: CORRUPT".to_owned()),
        false => Ok(()),
    });
const SERIALIZABLE_READ: Check = ("serializable_read", read);
const LINEARIZABLE_READ: Check = ("linearizable_read", read);

/// Checks of the liveness page.
const LIVE: &[Check] = &[SERIALIZABLE_READ];
/// Checks of the readiness page.
const READY: &[Check] = &[NON_LEARNER, DATA_CORRUPTION, SERIALIZABLE_READ, LINEARIZABLE_READ];

/// The router of all pages.
pub(crate) fn pages(pages: PageState) -> Router {
    let mut router = Router::new()
        .route("/version", page(get(version)))
        .route("/health", page(get(health)))
        .route("/metrics", page(get(counters)));
    for (path, checks) in [("/livez", LIVE), ("/readyz", READY)] {
        let all = move |State(pages): State<PageState>, RawQuery(query): RawQuery| {
            let response = checked(&pages.node, checks, &query.unwrap_or_default());
            async { response }
        };
        router = router.route(path, page(get(all)));
        for check in checks {
            let one = move |State(pages): State<PageState>| {
                let response = checked(&pages.node, std::slice::from_ref(check), "");
                async { response }
            };
            router = router.route(&format!("{path}/{}", check.0), page(get(one)));
        }
    }
    router.with_state(pages)
}

fn page(route: MethodRouter<PageState>) -> MethodRouter<PageState> {
    route
        .fallback(async || (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET")], "Method Not Allowed\n"))
}

async fn version() -> Response {
    let body = format!(
        r#"{{"etcdserver":"{VERSION}","etcdcluster":"{CLUSTER_VERSION}","storage":"{CLUSTER_VERSION}"}}"#
    );
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

async fn counters(State(pages): State<PageState>) -> Response {
    let text = metrics::text(&pages.node, &pages.calls, &pages.extra_metrics);
    ([(header::CONTENT_TYPE, kstore_metrics_text::TEXT)], text).into_response()
}

/// The `/health` page: healthy unless an alarm is raised, the store's engine has failed, or a read fails.
async fn health(State(pages): State<PageState>, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let excluded = excluded(&query);
    let raised =
        pages.node.store.alarms().into_iter().map(alarm_name).find(|alarm| !excluded.contains(alarm));
    let problem = match raised {
        Some(alarm) => Some(format!("ALARM {alarm}")),
        None => pages.node.store.engine_failure().or_else(|| read(&pages.node).err()),
    };
    let (status, body) = match problem {
        None => (StatusCode::OK, r#"{"health":"true","reason":""}"#.to_owned()),
        Some(reason) => {
            let reason = reason.replace(['"', '\\'], "'");
            (StatusCode::SERVICE_UNAVAILABLE, format!(r#"{{"health":"false","reason":"{reason}"}}"#))
        }
    };
    (status, body).into_response()
}

/// etcd's name of an alarm.
pub(crate) fn alarm_name(alarm: Alarm) -> &'static str {
    match alarm {
        Alarm::NoSpace => "NOSPACE",
        Alarm::Corrupt => "CORRUPT",
    }
}

fn read(node: &Node) -> Result<(), String> {
    node.store.range(&Range::key("health")).map(drop).map_err(|error| error.to_string())
}

fn excluded(query: &str) -> BTreeSet<&str> {
    query.split('&').filter_map(|pair| pair.strip_prefix("exclude=")).collect()
}

/// A page of checks. It always lists failed checks, and passed ones only with `verbose`.
fn checked(node: &Node, checks: &[Check], query: &str) -> Response {
    let excluded = excluded(query);
    let verbose = query.split('&').any(|pair| pair == "verbose" || pair.starts_with("verbose="));
    let (mut text, mut failed) = (String::new(), false);
    for (name, check) in checks.iter().filter(|(name, _)| !excluded.contains(name)) {
        match check(node) {
            Ok(()) => text += &format!("[+]{name} ok\n"),
            Err(reason) => {
                failed = true;
                text += &format!("[-]{name} failed: {reason}\n");
            }
        }
    }
    match (failed, verbose) {
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, text).into_response(),
        (false, true) => (text + "ok\n").into_response(),
        (false, false) => "ok\n".into_response(),
    }
}
