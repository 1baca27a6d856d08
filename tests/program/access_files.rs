//! Files of authentication and authorization that change under a running program: what a valid change does,
//! what an invalid one does not do, and what the metrics count.

use crate::SERVER;
use axum::Router;
use axum::routing::get;
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use kstore_client::Kubeconfig;
use kstore_nondet::Clock;
use kstore_tests::wait::PATIENCE;
use kstore_tests::{Https, Launch, Reply, Server, TlsServer};
use rcgen::{KeyPair, SigningKey as _};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const NAMESPACES: &str = "/api/v1/namespaces";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// The program with three files that configure access.
struct Access {
    dir: tempfile::TempDir,
    server: Server,
    admin: Https,
}

impl Access {
    fn start(authenticators: &str, authorizers: &str, users: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        write_authenticators(dir.path(), authenticators);
        write_authorizers(dir.path(), authorizers);
        write(dir.path(), "users", users);
        let [authn, authz, users] = ["authn.yaml", "authz.yaml", "users"].map(place);
        let flags = [
            "--nodes",
            "0",
            "--components",
            "apiserver",
            "--authentication-config",
            &authn,
            "--authorization-config",
            &authz,
            "--basic-auth-file",
            &users,
        ];
        let server = Launch::in_memory(SERVER, dir.path()).args(&flags).start().unwrap();
        let admin = Https::new(&Kubeconfig::read(server.kubeconfig()).unwrap());
        Self { dir, server, admin }
    }

    /// Sends a request with this header `Authorization` and without a certificate.
    async fn call(&self, method: &str, path: &str, authorization: &str) -> Reply {
        let header = format!("Authorization: {authorization}\r\n");
        self.admin.without_certificate().call_with(method, path, &header, "{}").await
    }

    async fn code(&self, authorization: &str) -> u16 {
        self.call("GET", NAMESPACES, authorization).await.code
    }

    /// Waits until such a request is answered with this code.
    async fn until_code(&self, authorization: &str, code: u16) {
        let began = Instant::now();
        loop {
            let found = self.code(authorization).await;
            if found == code {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{found} instead of {code}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the page of metrics has this line.
    async fn until_metric(&self, line: &str) {
        let began = Instant::now();
        loop {
            let page = self.admin.call("GET", "/metrics", "").await;
            let page = String::from_utf8_lossy(&page.body).into_owned();
            if page.lines().any(|found| found == line) {
                return;
            }
            let reloads: Vec<&str> =
                page.lines().filter(|line| line.contains("_config_controller")).collect();
            assert!(began.elapsed() < PATIENCE, "no {line} among {reloads:#?}");
            sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Replaces a file in one step.
fn write(dir: &Path, name: &str, text: &str) {
    let new = dir.join(format!("{name}.new"));
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, dir.join(name)).unwrap();
}

fn write_authenticators(dir: &Path, text: &str) {
    let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";
    write(dir, "authn.yaml", &format!("{head}{text}\n"));
}

fn write_authorizers(dir: &Path, text: &str) {
    let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n";
    write(dir, "authz.yaml", &format!("{head}authorizers: {text}\n"));
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
}

/// A line of the file of users, as the program makes it.
fn line(user: &str, password: &str, more: &[&str]) -> String {
    use std::io::Write as _;
    let mut command = Command::new(SERVER);
    command.args(["basic-auth", user]).args(more).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut made = command.spawn().unwrap();
    writeln!(made.stdin.take().unwrap(), "{password}").unwrap();
    let output = made.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// An OpenID Connect issuer with one key.
struct Provider {
    url: String,
    authority: String,
    key: KeyPair,
}

impl Provider {
    /// Serves the configuration and the key until the handle is dropped.
    async fn start() -> (Self, impl Drop) {
        let server = TlsServer::bind("localhost").await;
        let url = format!("https://localhost:{}", server.address().port());
        let authority = String::from_utf8(BASE64_STANDARD.decode(server.ca_bundle()).unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let [x, y] = [&key.public_key_raw()[1..33], &key.public_key_raw()[33..]]
            .map(|coordinate| BASE64_URL_SAFE_NO_PAD.encode(coordinate));
        let configuration = json!({"issuer": url, "jwks_uri": format!("{url}/keys")}).to_string();
        let keys =
            json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "k", "alg": "ES256", "x": x, "y": y}]});
        let keys = keys.to_string();
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(async move || configuration.clone()))
            .route("/keys", get(async move || keys.clone()));
        (Self { url, authority, key }, server.serve(router))
    }

    /// The entry of this issuer in an `AuthenticationConfiguration`.
    fn entry(&self) -> String {
        let entry = json!({
            "issuer": {"url": self.url, "audiences": ["kube"], "certificateAuthority": self.authority},
            "claimMappings": {"username": {"claim": "sub", "prefix": "oidc:"}},
        });
        format!("jwt: [{entry}]")
    }

    fn token(&self) -> String {
        let end = Clock::real().now().as_second() + 3600;
        let claims = json!({"iss": self.url, "aud": "kube", "sub": "ann", "exp": end});
        let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", encode(&json!({"alg": "ES256", "kid": "k"})), encode(&claims));
        let signature = fixed(&self.key.sign(message.as_bytes()).unwrap());
        format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    }
}

/// The two numbers of a DER signature, with 32 bytes each.
fn fixed(der: &[u8]) -> Vec<u8> {
    let mut rest = &der[2..];
    let mut number = || {
        let bytes = &rest[2..2 + usize::from(rest[1])];
        rest = &rest[2 + bytes.len()..];
        let significant = &bytes[bytes.len().saturating_sub(32)..];
        [vec![0; 32 - significant.len()], significant.to_vec()].concat()
    };
    [number(), number()].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn issuers_come_and_go_with_their_file_and_an_invalid_file_changes_nothing() {
    const RELOADS: &str = "apiserver_authentication_config_controller_automatic_reloads_total";
    let (provider, _serving) = Provider::start().await;
    let bearer = format!("Bearer {}", provider.token());
    let anonymous = "anonymous: {enabled: true, conditions: [{path: /livez}]}";
    let access = Access::start(anonymous, "[{type: Node, name: node}, {type: RBAC, name: rbac}]", "");
    let dir = access.dir.path();
    assert_eq!(access.code(&bearer).await, 401);
    write_authenticators(dir, &format!("{anonymous}\n{}", provider.entry()));
    access.until_code(&bearer, 403).await;
    let reviewed = access.call("POST", REVIEWS, &bearer).await;
    assert_eq!(reviewed.json()["status"]["userInfo"]["username"], "oidc:ann");
    access.until_metric(&format!("{RELOADS}{{status=\"success\"}} 1")).await;
    write(dir, "authn.yaml", "}{");
    access.until_metric(&format!("{RELOADS}{{status=\"failure\"}} 1")).await;
    // Anonymous access cannot change while the server runs.
    write_authenticators(dir, "anonymous: {enabled: true}");
    access.until_metric(&format!("{RELOADS}{{status=\"failure\"}} 2")).await;
    assert_eq!(access.code(&bearer).await, 403);
    assert_eq!(access.admin.without_certificate().call("GET", "/version", "").await.code, 401);
    write_authenticators(dir, anonymous);
    access.until_code(&bearer, 401).await;
    access.until_metric(&format!("{RELOADS}{{status=\"success\"}} 2")).await;
    access.server.terminate();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authorizers_follow_their_file_and_an_invalid_file_changes_nothing() {
    const RELOADS: &str = "apiserver_authorization_config_controller_automatic_reloads_total";
    let access = Access::start("", "[{type: RBAC, name: rbac}]", &line("ann", "secret", &[]));
    let (dir, ann) = (access.dir.path(), basic("ann", "secret"));
    assert_eq!(access.code(&ann).await, 403);
    write_authorizers(dir, "[{type: RBAC, name: rbac}, {type: AlwaysAllow, name: alwaysallow}]");
    access.until_code(&ann, 200).await;
    access.until_metric(&format!("{RELOADS}{{status=\"success\"}} 1")).await;
    // Of the modes that were on at the start all must remain, and Node cannot be added.
    for (failures, refused) in [
        "[{type: RBAC, name: rbac}, {type: Nonsense, name: x}]",
        "[{type: AlwaysDeny, name: alwaysdeny}]",
        "[{type: Node, name: node}, {type: RBAC, name: rbac}]",
        "[{type: RBAC, name: rbac}, {type: Webhook, name: hook, webhook: {timeout: 1s, failurePolicy: Deny, \
         subjectAccessReviewVersion: v1, connectionInfo: {type: KubeConfigFile, kubeConfigFile: /none}}}]",
    ]
    .into_iter()
    .enumerate()
    {
        write_authorizers(dir, refused);
        access.until_metric(&format!("{RELOADS}{{status=\"failure\"}} {}", failures + 1)).await;
        assert_eq!(access.code(&ann).await, 200, "{refused}");
    }
    write_authorizers(dir, "[{type: RBAC, name: rbac}]");
    access.until_code(&ann, 403).await;
    access.server.terminate();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_with_passwords_follow_their_file_and_are_told_how_to_authenticate() {
    let ann = line("ann", "s3cret words", &["--uid", "7", "--group", "dev", "--group", "system:masters"]);
    let access = Access::start("", "[{type: RBAC, name: rbac}]", &ann);
    let right = basic("ann", "s3cret words");
    assert_eq!(access.code(&right).await, 200);
    let reviewed = access.call("POST", REVIEWS, &right).await.json();
    assert_eq!(
        reviewed["status"]["userInfo"],
        json!({"username": "ann", "uid": "7", "groups": ["dev", "system:masters", "system:authenticated"]})
    );
    let challenge = "Basic realm=\"kubernetes-master\"";
    for wrong in [basic("ann", "wrong"), basic("joe", "s3cret words"), "Bearer unknown".to_owned()] {
        let refused = access.call("GET", NAMESPACES, &wrong).await;
        assert_eq!((refused.code, &refused.headers["www-authenticate"]), (401, &challenge.parse().unwrap()));
    }
    assert!(!access.call("GET", NAMESPACES, "None").await.headers.contains_key("www-authenticate"));
    write(access.dir.path(), "users", &line("bob", "other", &[]));
    access.until_code(&right, 401).await;
    assert_eq!(access.code(&basic("bob", "other")).await, 403);
    let log = std::fs::read_to_string(access.dir.path().join("server.log")).unwrap();
    for secret in ["s3cret", right.trim_start_matches("Basic "), "$argon2id"] {
        assert!(!log.contains(secret), "{log}");
    }
    access.server.terminate();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_headers_of_basic_authentication_are_refused() {
    let access = Access::start("", "[{type: RBAC, name: rbac}]", &line("ann", "secret", &[]));
    let encoded = |text: &[u8]| format!("Basic {}", BASE64_STANDARD.encode(text));
    for (what, header) in [
        ("nothing", "Basic".to_owned()),
        ("invalid base64", "Basic %%%".to_owned()),
        ("cut base64", "Basic YW5uOnNlY3Jld".to_owned()),
        ("no colon", encoded(b"ann")),
        ("no user", encoded(b":secret")),
        ("no password", encoded(b"ann:")),
        ("invalid UTF-8", encoded(b"ann:\xff\xfe")),
        ("a zero byte", encoded(b"ann:secret\0")),
        ("a zero byte before the colon", encoded(b"ann\0:secret")),
        ("8 KiB", encoded(format!("ann:{}", "x".repeat(8 << 10)).as_bytes())),
    ] {
        let refused = access.call("GET", NAMESPACES, &header).await;
        assert_eq!((refused.code, refused.headers.contains_key("www-authenticate")), (401, true), "{what}");
    }
    assert_eq!(access.code(&basic("ann", "secret")).await, 403, "the server still knows its user");
    access.server.terminate();
}
