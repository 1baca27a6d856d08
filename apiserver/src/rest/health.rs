//! `/livez`, `/readyz`, `/healthz`: named checks, each true or false at the moment of asking. What a check looks at is given by
//! its owner; nothing is measured in the background.

use super::document::reply;
use bytes::Bytes;
use http::header::{HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Response, StatusCode};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};

const TEXT: &str = "text/plain; charset=utf-8";

/// The state that the checks look at.
pub struct Health {
    storage: Box<dyn Fn() -> bool + Send + Sync>,
    bootstrapped: AtomicBool,
    stopping: AtomicBool,
}

/// One named check.
struct Check {
    name: &'static str,
    /// Asked by `/readyz` only.
    readiness: bool,
    holds: fn(&Health) -> bool,
}

/// In the order shown. The names are those that clients of Kubernetes know, where the check means the same.
const CHECKS: [Check; 9] = [
    Check { name: "ping", readiness: false, holds: |_| true },
    Check { name: "log", readiness: false, holds: |_| true },
    Check { name: "etcd", readiness: false, holds: |health| (health.storage)() },
    Check { name: "etcd-readiness", readiness: true, holds: |health| (health.storage)() },
    Check { name: "informer-sync", readiness: true, holds: Health::is_bootstrapped },
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
    Check { name: "shutdown", readiness: true, holds: |health| !health.stopping.load(Ordering::Relaxed) },
];

impl Health {
    /// A server that has just begun to start. `storage` says whether the storage takes requests.
    pub fn new(storage: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self {
            storage: Box::new(storage),
            bootstrapped: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        }
    }

    /// The cache is filled and the objects that every cluster has are there.
    pub fn set_bootstrapped(&self) {
        self.bootstrapped.store(true, Ordering::Relaxed);
    }

    /// The end has begun: still alive, but no longer ready.
    pub fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    fn is_bootstrapped(&self) -> bool {
        self.bootstrapped.load(Ordering::Relaxed)
    }

    /// Whether `/readyz` would say ok.
    pub fn is_ready(&self) -> bool {
        CHECKS.iter().all(|check| (check.holds)(self))
    }

    /// The answer to a GET of a health path (`/livez`, `/readyz/ping`, …); `None` if the path is none.
    pub fn answer(&self, path: &str, query: Option<&str>) -> Option<Response<Bytes>> {
        let (endpoint, check) =
            path.strip_prefix('/')?.split_once('/').unwrap_or((path.strip_prefix('/')?, ""));
        let ready = match endpoint {
            "readyz" => true,
            "livez" | "healthz" => false,
            _ => return None,
        };
        let mut checks = CHECKS.iter().filter(|c| ready || !c.readiness);
        if check.is_empty() {
            return Some(self.all(endpoint, checks, query.unwrap_or_default()));
        }
        let check = checks.find(|c| c.name == check)?;
        Some(if (check.holds)(self) {
            text(StatusCode::OK, "ok")
        } else {
            text(StatusCode::INTERNAL_SERVER_ERROR, "internal server error: failed\n")
        })
    }

    fn all<'c>(
        &self,
        endpoint: &str,
        checks: impl Iterator<Item = &'c Check>,
        query: &str,
    ) -> Response<Bytes> {
        let parameters = || query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let verbose = parameters().any(|(key, _)| key == "verbose");
        let excluded = |name: &str| {
            parameters().any(|(key, value)| key == "exclude" && value.replace("%2F", "/") == name)
        };
        let (mut body, mut failed) = (String::new(), false);
        for check in checks {
            let name = check.name;
            let _ = if excluded(name) {
                writeln!(body, "[+]{name} excluded: ok")
            } else if (check.holds)(self) {
                writeln!(body, "[+]{name} ok")
            } else {
                failed = true;
                writeln!(body, "[-]{name} failed: reason withheld")
            };
        }
        match (failed, verbose) {
            (true, _) => text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{body}{endpoint} check failed\n")),
            (false, true) => text(StatusCode::OK, &format!("{body}{endpoint} check passed\n")),
            (false, false) => text(StatusCode::OK, "ok"),
        }
    }
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
    fn a_server_is_ready_between_its_bootstrap_and_its_end() {
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
        assert_eq!(get(&health, "/livez", ""), (200, "ok".into()));
    }

    #[test]
    fn checks_can_be_listed_and_asked_one_by_one() {
        let health = Health::new(|| false);
        health.set_bootstrapped();
        let (code, body) = get(&health, "/livez", "verbose");
        assert_eq!(code, 500);
        assert!(body.starts_with("[+]ping ok\n[+]log ok\n[-]etcd failed"), "{body}");
        assert_eq!(get(&health, "/livez/ping", "").0, 200);
        assert_eq!(get(&health, "/livez/etcd", "").0, 500);
        assert_eq!(get(&health, "/readyz/poststarthook/rbac/bootstrap-roles", "").0, 200);
        assert!(health.answer("/livez/nothing", None).is_none());
        assert!(health.answer("/version", None).is_none());
    }
}
