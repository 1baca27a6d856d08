//! `/livez`, `/readyz`, `/healthz`: named checks, evaluated at each request. The owner of a state provides
//! the check; nothing is measured in the background.

use super::document::reply;
use bytes::Bytes;
use http::header::{HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Response, StatusCode};
use kstore_access::percent_encoding::decode_query;
use kstore_metrics_text::Page;
use kstore_storage::series::Counter;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};

const TEXT: &str = "text/plain; charset=utf-8";

/// The state that the checks read.
pub struct Health {
    storage: Box<dyn Fn() -> bool + Send + Sync>,
    /// The result of the check [`KMS`]; `None` without key management services.
    kms: Box<dyn Fn() -> Option<bool> + Send + Sync>,
    bootstrapped: AtomicBool,
    stopping: AtomicBool,
    /// Number of successes and failures of each check, by endpoint.
    results: [[[Counter; 2]; CHECKS.len()]; ENDPOINTS.len()],
}

/// The endpoints, by path.
const ENDPOINTS: [&str; 3] = ["healthz", "livez", "readyz"];

/// The check of key management services, which exists only if there are some.
const KMS: &str = "kms-providers";

struct Check {
    name: &'static str,
    /// Whether only `/readyz` evaluates the check.
    readiness: bool,
    holds: fn(&Health) -> bool,
}

/// All checks, in the order of the answer. Names are those that clients of Kubernetes know, where the check
/// means the same.
const CHECKS: [Check; 12] = [
    Check { name: "ping", readiness: false, holds: |_| true },
    Check { name: "log", readiness: false, holds: |_| true },
    Check { name: "etcd", readiness: false, holds: |health| (health.storage)() },
    Check { name: "etcd-readiness", readiness: true, holds: |health| (health.storage)() },
    Check { name: "informer-sync", readiness: true, holds: Health::is_bootstrapped },
    // Admission and authorization read the watch cache.
    Check {
        name: "poststarthook/start-apiserver-admission-initializer",
        readiness: false,
        holds: Health::is_bootstrapped,
    },
    Check {
        name: "poststarthook/generic-apiserver-start-informers",
        readiness: false,
        holds: Health::is_bootstrapped,
    },
    Check {
        name: "poststarthook/start-system-namespaces-controller",
        readiness: false,
        holds: Health::is_bootstrapped,
    },
    Check { name: "poststarthook/rbac/bootstrap-roles", readiness: false, holds: Health::is_bootstrapped },
    Check {
        name: "poststarthook/scheduling/bootstrap-system-priority-classes",
        readiness: false,
        holds: Health::is_bootstrapped,
    },
    Check { name: KMS, readiness: false, holds: |health| (health.kms)() != Some(false) },
    Check { name: "shutdown", readiness: true, holds: |health| !health.stopping.load(Ordering::Relaxed) },
];

impl Health {
    /// The health of a server that has begun to start. `storage` returns whether the storage accepts
    /// requests.
    pub fn new(storage: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self {
            storage: Box::new(storage),
            kms: Box::new(|| None),
            bootstrapped: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            results: Default::default(),
        }
    }

    /// Adds the check of key management services; `kms` returns `None` as long as there are none.
    #[must_use]
    pub fn with_kms(self, kms: impl Fn() -> Option<bool> + Send + Sync + 'static) -> Self {
        Self { kms: Box::new(kms), ..self }
    }

    /// The checks of an endpoint.
    fn checks(&self, endpoint: usize) -> impl Iterator<Item = (usize, &'static Check)> + use<> {
        let has_kms = (self.kms)().is_some();
        checks(endpoint).filter(move |(_, check)| has_kms || check.name != KMS)
    }

    /// Records that the cache is filled and the initial objects exist.
    pub fn set_bootstrapped(&self) {
        self.bootstrapped.store(true, Ordering::Relaxed);
    }

    /// Records that the server is stopping: it is still alive, but no longer ready.
    pub fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    fn is_bootstrapped(&self) -> bool {
        self.bootstrapped.load(Ordering::Relaxed)
    }

    /// Whether `/readyz` would succeed.
    pub fn is_ready(&self) -> bool {
        CHECKS.iter().all(|check| (check.holds)(self))
    }

    /// Answers a GET of a health path (`/livez`, `/readyz/ping`, …); `None` for other paths.
    pub fn answer(&self, path: &str, query: Option<&str>) -> Option<Response<Bytes>> {
        let path = path.strip_prefix('/')?;
        let (endpoint, name) = path.split_once('/').unwrap_or((path, ""));
        let endpoint = ENDPOINTS.iter().position(|known| *known == endpoint)?;
        if name.is_empty() {
            return Some(self.all(endpoint, query.unwrap_or_default()));
        }
        let (at, _) = self.checks(endpoint).find(|(_, check)| check.name == name)?;
        Some(if self.evaluate(endpoint, at) {
            text(StatusCode::OK, "ok")
        } else {
            text(StatusCode::INTERNAL_SERVER_ERROR, &format!("internal server error: {name} failed\n"))
        })
    }

    fn evaluate(&self, endpoint: usize, check: usize) -> bool {
        let holds = (CHECKS[check].holds)(self);
        self.results[endpoint][check][usize::from(!holds)].add(1);
        holds
    }

    fn all(&self, endpoint: usize, query: &str) -> Response<Bytes> {
        let parameters = || query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let verbose = parameters().any(|(key, _)| key == "verbose");
        let mut excluded: Vec<String> =
            parameters().filter(|(key, _)| *key == "exclude").map(|(_, value)| decode_query(value)).collect();
        excluded.sort();
        excluded.dedup();
        let (mut body, mut failed) = (String::new(), false);
        for (at, check) in self.checks(endpoint) {
            let name = check.name;
            let _ = if let Some(at) = excluded.iter().position(|excluded| excluded == name) {
                excluded.remove(at);
                writeln!(body, "[+]{name} excluded: ok")
            } else if self.evaluate(endpoint, at) {
                writeln!(body, "[+]{name} ok")
            } else {
                failed = true;
                writeln!(body, "[-]{name} failed: reason withheld")
            };
        }
        if !excluded.is_empty() {
            let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
            let names = names.join(", ");
            let _ = writeln!(body, "warn: some health checks cannot be excluded: no matches for {names}");
        }
        let endpoint = ENDPOINTS[endpoint];
        match (failed, verbose) {
            (true, _) => text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{body}{endpoint} check failed\n")),
            (false, true) => text(StatusCode::OK, &format!("{body}{endpoint} check passed\n")),
            (false, false) => text(StatusCode::OK, "ok"),
        }
    }

    /// All paths of health checks.
    pub fn paths() -> impl Iterator<Item = String> {
        let own = |(at, endpoint): (usize, &&str)| {
            let checks = checks(at).filter(|(_, check)| check.name != KMS);
            let checks = checks.map(|(_, check)| format!("/{endpoint}/{}", check.name));
            std::iter::once(format!("/{endpoint}")).chain(checks).collect::<Vec<_>>()
        };
        ENDPOINTS.iter().enumerate().flat_map(own)
    }

    /// Renders the metrics of `/metrics/slis`: the present result of each check, and the number of its
    /// results.
    pub fn render(&self, page: &mut Page<'_>) {
        let all = || {
            let of = |(at, endpoint): (usize, &&'static str)| {
                let endpoint = *endpoint;
                self.checks(at).map(move |(check, row)| (at, check, endpoint, row.name)).collect::<Vec<_>>()
            };
            ENDPOINTS.iter().enumerate().flat_map(of)
        };
        let name = "kubernetes_healthcheck";
        page.head(name, "gauge", "Whether a health check succeeds.");
        for (_, check, endpoint, row) in all() {
            let holds = u8::from((CHECKS[check].holds)(self));
            page.line(name, &[("name", row), ("type", endpoint)], holds);
        }
        let name = "kubernetes_healthchecks_total";
        page.head(name, "counter", "Evaluations of a health check, by result.");
        for (at, check, endpoint, row) in all() {
            for (status, results) in ["success", "error"].iter().zip(&self.results[at][check]) {
                if results.get() > 0 {
                    page.line(name, &[("name", row), ("type", endpoint), ("status", status)], results.get());
                }
            }
        }
    }
}

/// The checks of an endpoint, with their indexes in [`CHECKS`].
fn checks(endpoint: usize) -> impl Iterator<Item = (usize, &'static Check)> {
    let ready = ENDPOINTS[endpoint] == "readyz";
    CHECKS.iter().enumerate().filter(move |(_, check)| ready || !check.readiness)
}

fn text(status: StatusCode, body: &str) -> Response<Bytes> {
    let mut response = reply(status, TEXT, Bytes::copy_from_slice(body.as_bytes()));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(health: &Health, path: &str, query: &str) -> (u16, String) {
        let response = health.answer(path, Some(query)).unwrap();
        (response.status().as_u16(), String::from_utf8(response.body().to_vec()).unwrap())
    }

    #[test]
    fn a_server_is_ready_from_bootstrap_until_stop() {
        let health = Health::new(|| true);
        let (code, body) = get(&health, "/readyz", "");
        assert_eq!(code, 500);
        assert!(body.contains("[-]informer-sync failed: reason withheld\n"), "{body}");
        assert!(body.ends_with("readyz check failed\n"));
        health.set_bootstrapped();
        assert_eq!(get(&health, "/readyz", ""), (200, "ok".into()));
        health.set_stopping();
        assert_eq!(get(&health, "/readyz", "").0, 500);
        assert_eq!(get(&health, "/readyz", "exclude=shutdown").0, 200);
        let verbose = get(&health, "/readyz", "verbose&exclude=shutdown&exclude=nothing").1;
        assert!(verbose.contains("[+]shutdown excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"nothing\"\n"), "{verbose}");
        assert_eq!(get(&health, "/livez", ""), (200, "ok".into()));
    }

    #[test]
    fn health_checks_can_be_listed_and_evaluated_singly() {
        let health = Health::new(|| false);
        health.set_bootstrapped();
        let (code, body) = get(&health, "/livez", "verbose");
        assert_eq!(code, 500);
        assert!(body.starts_with("[+]ping ok\n[+]log ok\n[-]etcd failed"), "{body}");
        assert_eq!(get(&health, "/livez/ping", "").0, 200);
        assert_eq!(get(&health, "/livez/etcd", ""), (500, "internal server error: etcd failed\n".into()));
        let mut page = String::new();
        health.render(&mut Page::new(&mut page));
        assert!(page.contains("kubernetes_healthcheck{name=\"etcd\",type=\"livez\"} 0\n"), "{page}");
        assert!(
            page.contains("kubernetes_healthchecks_total{name=\"etcd\",type=\"livez\",status=\"error\"} 2\n"),
            "{page}"
        );
        assert!(!page.contains("name=\"shutdown\",type=\"livez\""), "readiness only");
        assert_eq!(get(&health, "/readyz/poststarthook/rbac/bootstrap-roles", "").0, 200);
        assert!(health.answer("/livez/nothing", None).is_none());
        assert!(health.answer("/version", None).is_none());
    }
}
