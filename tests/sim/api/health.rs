//! Health checks and the version: codes and texts that probes and clients read.

use kstore_registry::user::UserInfo;
use kstore_tests::{Rest, Setup, simulate};

async fn get(rest: &Rest, path: &str) -> (u16, String) {
    let reply = rest.call("GET", path, "").await;
    (reply.code, String::from_utf8(reply.body.to_vec()).unwrap())
}

#[test]
fn a_started_server_is_live_and_ready() {
    simulate(Setup::api_alone(), async |cluster| {
        let rest = cluster.rest();
        for endpoint in ["healthz", "livez", "readyz"] {
            let reply = rest.call("GET", &format!("/{endpoint}"), "").await;
            assert_eq!((reply.code, &reply.body[..]), (200, &b"ok"[..]));
            assert_eq!(reply.headers["content-type"], "text/plain; charset=utf-8");
            assert_eq!(reply.headers["x-content-type-options"], "nosniff");
            let (_, verbose) = get(&rest, &format!("/{endpoint}?verbose")).await;
            assert!(verbose.starts_with("[+]ping ok\n[+]log ok\n[+]etcd ok\n"), "{verbose}");
            assert!(verbose.ends_with(&format!("{endpoint} check passed\n")), "{verbose}");
            assert_eq!(verbose.contains("etcd-readiness"), endpoint == "readyz");
        }
        assert_eq!(get(&rest, "/livez/poststarthook/rbac/bootstrap-roles").await, (200, "ok".into()));
        assert_eq!(get(&rest, "/livez/nothing").await, (404, "404 page not found\n".into()));
    });
}

#[test]
fn a_server_with_closed_storage_is_neither_live_nor_ready() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.store().close().await;
        // The watch cache observes the closed storage.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        let rest = cluster.rest();
        let (code, body) = get(&rest, "/readyz").await;
        assert_eq!(code, 500);
        assert!(
            body.contains("[-]etcd failed: reason withheld\n[-]etcd-readiness failed: reason withheld\n"),
            "{body}"
        );
        assert!(body.ends_with("readyz check failed\n"), "{body}");
        assert_eq!(get(&rest, "/livez/ping").await.0, 200);
        assert_eq!(get(&rest, "/readyz?exclude=etcd&exclude=etcd-readiness").await.0, 200);
    });
}

#[test]
fn anonymous_users_may_read_health_and_version_and_monitors_metrics() {
    simulate(Setup::api_alone(), async |cluster| {
        let anonymous = cluster.rest_as(UserInfo::anonymous());
        for path in ["/healthz", "/livez", "/readyz", "/version"] {
            assert_eq!(get(&anonymous, path).await.0, 200, "{path}");
        }
        for path in ["/metrics", "/metrics/slis", "/openapi/v2", "/openapi/v3", "/apis"] {
            assert_eq!(get(&anonymous, path).await.0, 403, "{path}");
        }
        let monitor = cluster.rest_as(UserInfo::new("prometheus", ["system:monitoring"]));
        for path in ["/metrics", "/metrics/slis", "/livez/ping", "/readyz/ping"] {
            assert_eq!(get(&monitor, path).await.0, 200, "{path}");
        }
    });
}

#[test]
fn major_and_minor_version_are_numbers_as_strings() {
    let setup = Setup::api_alone();
    let release = format!("v{}.", setup.minor);
    simulate(setup, async |cluster| {
        let version = cluster.rest().call("GET", "/version", "").await.json();
        let version = version.as_object().unwrap();
        assert!(version.values().all(serde_json::Value::is_string), "{version:?}");
        for number in ["major", "minor", "emulationMajor", "emulationMinor", "minCompatibilityMajor"] {
            version[number].as_str().unwrap().parse::<u32>().unwrap();
        }
        for text in ["buildDate", "compiler", "gitCommit", "gitTreeState", "goVersion", "platform"] {
            assert!(version.contains_key(text), "{text}");
        }
        assert!(version["gitVersion"].as_str().unwrap().starts_with(&release), "{version:?}");
    });
}
