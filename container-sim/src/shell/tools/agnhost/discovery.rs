//! `test-service-account-issuer-discovery`: verifies a mounted token by the documents of its issuer, as a relying party of OpenID Connect
//! does. It asks as a client in the cluster first, and then as one outside, which has no token and trusts no authority of the cluster.

use super::value;
use crate::http::{HttpRequest, ReceivedResponse};
use crate::limits::{DISCOVERY_BYTES, REDIRECTS, VERIFICATION_WORK};
use crate::shell::env::Env;
use crate::shell::network::{NetworkFailure, NetworkReply, TlsFailure, TlsTrust};
use crate::shell::server::logged;
use crate::shell::tools::fetch::{Patience, Url, call, replace_headers};
use crate::shell::tools::{Effect, Networked, Outcome, ToolCall};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode, decode_header};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Where the files of the service account are.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// How long Go's client waits for a connection.
const DIAL: Duration = Duration::from_secs(30);
/// The algorithms that the program accepts.
const ACCEPTED: [Algorithm; 2] = [Algorithm::RS256, Algorithm::ES256];
/// The exit code of a program that logs a fatal error.
const FATAL: u8 = 1;

/// The token to verify.
#[derive(Clone, Debug)]
struct Token {
    raw: String,
    header: Header,
    /// Not verified.
    claims: Value,
}

impl Token {
    /// Reads a token without verifying it.
    fn parse(raw: String) -> Result<Self, String> {
        let malformed = |why: jsonwebtoken::errors::Error| format!("go-jose/go-jose: {why}");
        let header = decode_header(&raw).map_err(malformed)?;
        let mut validation = lenient(header.alg);
        validation.insecure_disable_signature_validation();
        let decoded = decode(&raw, &DecodingKey::from_secret(&[]), &validation).map_err(malformed)?;
        Ok(Self { raw, header, claims: decoded.claims })
    }

    fn text(&self, claim: &str) -> &str {
        self.claims[claim].as_str().unwrap_or_default()
    }

    /// The audiences: a text or a list of them.
    fn audiences(&self) -> Vec<&str> {
        match &self.claims["aud"] {
            Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
            one => one.as_str().into_iter().collect(),
        }
    }

    /// Why the token is not for this audience now; its signature is not looked at.
    fn refusal(&self, audience: &str, now: i64) -> Option<String> {
        let audiences = self.audiences();
        if !audiences.contains(&audience) {
            return Some(format!("oidc: expected audience {audience:?} got [{}]", quoted(&audiences, " ")));
        }
        let seconds = |claim: &str| self.claims[claim].as_i64();
        match seconds("exp") {
            Some(end) if end >= now => {}
            end => {
                return Some(format!(
                    "oidc: token is expired (Token Expiry: {})",
                    time(end.unwrap_or_default())
                ));
            }
        }
        /// How much clocks may differ.
        const LEEWAY: i64 = 300;
        let begin = seconds("nbf").filter(|begin| now + LEEWAY < *begin)?;
        Some(format!("oidc: current time {} before the nbf (not before) time: {}", time(now), time(begin)))
    }

    /// Whether one of these keys signed it: those of its key's name, or all if it names none.
    fn is_signed_by(&self, env: &Env, keys: &[Value]) -> bool {
        let named = keys
            .iter()
            .filter(|key| self.header.kid.is_none() || key["kid"].as_str() == self.header.kid.as_deref());
        for key in named.take_while(|_| env.work.spend(VERIFICATION_WORK)) {
            let key = serde_json::from_value::<Jwk>(key.clone()).ok();
            let key = key.and_then(|key| DecodingKey::from_jwk(&key).ok());
            if key.is_some_and(|key| decode::<Value>(&self.raw, &key, &lenient(self.header.alg)).is_ok()) {
                return true;
            }
        }
        false
    }

    /// The claims as Go prints the struct of them; where Go prints the addresses of times, these are seconds.
    fn shown(&self) -> String {
        let (pod, time) =
            (&self.claims["kubernetes.io"], |claim: &str| self.claims[claim].as_i64().unwrap_or_default());
        let of = |value: &Value| format!("{:?}", value.as_str().unwrap_or_default());
        format!(
            "openidmetadata.claims{{Claims:jwt.Claims{{Issuer:{:?}, Subject:{:?}, Audience:jwt.Audience{{{}}}, Expiry:{}, NotBefore:{}, \
             IssuedAt:{}, ID:{:?}}}, Kubernetes:openidmetadata.kubeClaims{{Namespace:{}, \
             ServiceAccount:openidmetadata.kubeName{{Name:{}, UID:{}}}}}}}",
            self.text("iss"),
            self.text("sub"),
            quoted(&self.audiences(), ", "),
            time("exp"),
            time("nbf"),
            time("iat"),
            self.text("jti"),
            of(&pod["namespace"]),
            of(&pod["serviceaccount"]["name"]),
            of(&pod["serviceaccount"]["uid"]),
        )
    }
}

/// What the library checks beside the signature: nothing, because times are those of the simulation.
fn lenient(algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    (validation.validate_exp, validation.validate_nbf, validation.validate_aud) = (false, false, false);
    validation.required_spec_claims.clear();
    validation
}

fn quoted(texts: &[&str], between: &str) -> String {
    texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(between)
}

/// A time as Go prints it.
fn time(second: i64) -> String {
    jiff::Timestamp::from_second(second)
        .unwrap_or_default()
        .strftime("%Y-%m-%d %H:%M:%S +0000 UTC")
        .to_string()
}

/// A client of the issuer.
#[derive(Clone, Debug)]
struct Client {
    /// The token of the service account; a client outside of the cluster has none.
    bearer: Option<String>,
    trust: TlsTrust,
}

impl Client {
    /// The client of a pod: the error is that of a pod without a service account.
    fn of_cluster(env: &Env) -> Result<Self, String> {
        let is_set = |name| env.variables.text(name).is_some_and(|text| !text.is_empty());
        if !is_set("KUBERNETES_SERVICE_HOST") || !is_set("KUBERNETES_SERVICE_PORT") {
            return Err("unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined"
                .to_owned());
        }
        let token = read(env, &format!("{ACCOUNT}/token"))?;
        let bearer = String::from_utf8_lossy(&token).trim().to_owned();
        let authority = read(env, &format!("{ACCOUNT}/ca.crt")).unwrap_or_else(|_| Arc::from([]));
        Ok(Self { bearer: Some(bearer), trust: TlsTrust::Authorities(authority) })
    }

    /// A client outside of the cluster. Images have no authorities of their own.
    fn outside() -> Self {
        Self { bearer: None, trust: TlsTrust::Authorities(Arc::from([])) }
    }
}

/// A file, or Go's error.
fn read(env: &Env, path: &str) -> Result<Arc<[u8]>, String> {
    let bytes = env.read(&env.path(path));
    bytes.map_err(|why| format!("open {path}: {}", why.to_string().to_lowercase()))
}

/// The document that a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Document {
    Configuration,
    Keys,
}

/// A verification that waits for a document.
#[derive(Clone, Debug)]
struct Verification {
    token: Token,
    audience: String,
    client: Client,
    document: Document,
    url: Url,
    redirects: usize,
}

pub(super) fn run(call: &ToolCall<'_>, arguments: &[String]) -> Outcome {
    let env = call.env;
    let flag = |name: &str| value(arguments, &[name]).unwrap_or_default().to_owned();
    let token = read(env, &flag("token-path")).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let mut then = Vec::new();
    match token {
        Ok(raw) => {
            then.push(line(env, "OK: Got token"));
            then.push(line(env, "validating with in-cluster discovery"));
            then.extend(match (Client::of_cluster(env), Token::parse(raw)) {
                (Ok(client), Ok(token)) => validate(env, token, flag("audience"), client),
                (Err(why), _) | (Ok(_), Err(why)) => fatal(env, &why),
            });
        }
        Err(why) => then.extend(fatal(env, &why)),
    }
    Outcome { then, ..Outcome::default() }
}

fn line(env: &Env, text: &str) -> Effect {
    Effect::Error(logged(env, text).into_bytes())
}

fn fatal(env: &Env, why: &str) -> Vec<Effect> {
    vec![line(env, why), Effect::Code(FATAL)]
}

/// Begins a verification with a client.
fn validate(env: &Env, token: Token, audience: String, client: Client) -> Vec<Effect> {
    let issuer = token.text("iss").to_owned();
    let mut all = vec![
        line(env, &format!("OK: got issuer {issuer}")),
        line(env, &format!("Full, not-validated claims: \n{}", token.shown())),
    ];
    let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
    let document = Document::Configuration;
    all.extend(match Url::parse(&url).filter(|_| url.contains("://")) {
        Some(url) => Verification { token, audience, client, document, url, redirects: 0 }.ask(env),
        None => {
            let why = format!("Get {url:?}: unsupported protocol scheme");
            failed(env, token, audience, &client, &why)
        }
    });
    all
}

/// What follows a failure: the verification outside of the cluster, or the end.
fn failed(env: &Env, token: Token, audience: String, client: &Client, why: &str) -> Vec<Effect> {
    if client.bearer.is_none() {
        return fatal(env, why);
    }
    let mut all = vec![
        line(env, &format!("failed to validate with in-cluster discovery: {why}")),
        line(env, "falling back to validating with external discovery"),
    ];
    all.extend(validate(env, token, audience, Client::outside()));
    all
}

impl Verification {
    /// Asks for the document.
    fn ask(self, env: &Env) -> Vec<Effect> {
        let mut headers = vec![("Host".to_owned(), self.url.authority())];
        let bearer = self.client.bearer.as_ref().map(|token| format!("Authorization: Bearer {token}"));
        let wanted = ["User-Agent: agnhost", "Connection: close"].into_iter().chain(bearer.as_deref());
        replace_headers(&mut headers, wanted);
        let (method, target) = ("GET".to_owned(), self.url.path.clone());
        let request = HttpRequest { method, target, headers, ..HttpRequest::default() };
        let patience = Patience { connect_within: Some(DIAL), ..Patience::default() };
        let mut call = call(env, &self.url, &request, patience, &self.client.trust);
        call.most = DISCOVERY_BYTES;
        vec![Effect::Network(call, Box::new(self))]
    }

    fn failed(self, env: &Env, why: &str) -> Vec<Effect> {
        let why = match self.document {
            Document::Configuration => why.to_owned(),
            Document::Keys => {
                format!("failed to verify signature: fetching keys oidc: get keys failed: {why}")
            }
        };
        failed(env, self.token, self.audience, &self.client, &why)
    }

    /// What follows the configuration of the issuer.
    fn configured(mut self, env: &Env, body: &[u8]) -> Vec<Effect> {
        let configuration: Value = match serde_json::from_slice(body) {
            Ok(configuration) => configuration,
            Err(why) => {
                let why = format!("oidc: failed to decode provider discovery object: {why}");
                return self.failed(env, &why);
            }
        };
        let (own, named) = (self.token.text("iss"), configuration["issuer"].as_str().unwrap_or_default());
        if own != named {
            let why = format!(
                "oidc: issuer did not match the issuer returned by provider, expected {own:?} got {named:?}"
            );
            return self.failed(env, &why);
        }
        let mut all = vec![line(env, &format!("OK: Constructed OIDC provider for issuer {own}"))];
        let algorithm = self.token.header.alg;
        let refusal = self.token.refusal(&self.audience, env.now).or_else(|| {
            let text = "oidc: id token signed with unsupported algorithm, expected [\"RS256\" \"ES256\"] got";
            (!ACCEPTED.contains(&algorithm)).then(|| format!("{text} \"{algorithm:?}\""))
        });
        let keys = configuration["jwks_uri"].as_str().unwrap_or_default();
        all.extend(match (refusal, Url::parse(keys).filter(|_| keys.contains("://"))) {
            (Some(why), _) => self.failed(env, &why),
            (None, Some(url)) => {
                (self.document, self.url, self.redirects) = (Document::Keys, url, 0);
                self.ask(env)
            }
            (None, None) => {
                self.document = Document::Keys;
                self.failed(env, &format!("Get {keys:?}: unsupported protocol scheme"))
            }
        });
        all
    }

    /// What follows the keys of the issuer.
    fn verified(self, env: &Env, body: &[u8]) -> Vec<Effect> {
        let keys: Value = match serde_json::from_slice(body) {
            Ok(keys) => keys,
            Err(why) => {
                let why = format!("failed to decode keys: {why}");
                return self.failed(env, &why);
            }
        };
        let keys = keys["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
        if !self.token.is_signed_by(env, keys) {
            let why = "failed to verify signature: failed to verify id token signature";
            return failed(env, self.token, self.audience, &self.client, why);
        }
        vec![
            line(env, "OK: Validated signature on JWT"),
            line(env, "OK: Got valid claims from token!"),
            line(env, &format!("Full, validated claims: \n&{}", self.token.shown())),
        ]
    }

    /// Go's text for a request that got no answer.
    fn unanswered(&self, why: &NetworkFailure) -> String {
        let (host, port) = (&self.url.host, self.url.port);
        let why = match why {
            NetworkFailure::UnknownName => format!("dial tcp: lookup {host}: no such host"),
            NetworkFailure::TimedOut(ip) => format!("dial tcp {ip}:{port}: i/o timeout"),
            NetworkFailure::Tls(TlsFailure::NotTls) => {
                "http: server gave HTTP response to HTTPS client".to_owned()
            }
            NetworkFailure::Tls(why) => {
                let why = match why {
                    TlsFailure::UnknownAuthority => {
                        "x509: certificate signed by unknown authority".to_owned()
                    }
                    TlsFailure::WrongName => format!("x509: certificate is not valid for {host}"),
                    TlsFailure::Expired => "x509: certificate has expired or is not yet valid".to_owned(),
                    TlsFailure::NotTls => String::new(),
                    TlsFailure::Other(text) => text.clone(),
                };
                format!("tls: failed to verify certificate: {why}")
            }
            why => match why.address() {
                Some(ip) => format!("dial tcp {ip}:{port}: connect: {}", why.text().to_lowercase()),
                None => format!("dial tcp: {}", why.text().to_lowercase()),
            },
        };
        format!("Get \"{}://{}{}\": {why}", self.url.scheme(), self.url.authority(), self.url.path)
    }
}

impl Networked for Verification {
    fn reply(mut self: Box<Self>, env: &Env, reply: NetworkReply) -> Vec<Effect> {
        let received = match reply.result {
            Ok(received) => received,
            Err(why) => {
                let why = self.unanswered(&why);
                return self.failed(env, &why);
            }
        };
        let response = ReceivedResponse::parse(&received.bytes, "GET").filter(|response| !response.is_cut);
        let Some(response) = response.filter(|_| env.work.spend(received.bytes.len())) else {
            return self.failed(env, "unexpected EOF");
        };
        let next = response.header("location").filter(|_| (300..400).contains(&response.code));
        if let Some(next) = next.and_then(|location| self.url.redirected(location)) {
            if self.redirects >= REDIRECTS {
                return self.failed(env, "stopped after 10 redirects");
            }
            (self.redirects, self.url) = (self.redirects + 1, next);
            return self.ask(env);
        }
        match (response.code, self.document) {
            (200, Document::Configuration) => self.configured(env, &response.body),
            (200, Document::Keys) => self.verified(env, &response.body),
            _ => {
                let status = response.status.split_once(' ').map_or("", |(_, status)| status);
                let why = format!("{status}: {}", String::from_utf8_lossy(&response.body));
                self.failed(env, &why)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::network::{Received, ReceivedEnd};
    use crate::shell::{Environment, tools::base64};
    use jsonwebtoken::{EncodingKey, encode};
    use serde_json::json;
    use std::collections::BTreeMap;

    const ISSUER: &str = "https://issuer:6443";
    const NOW: i64 = 1_000_000;

    /// A key of an issuer: it, and its public half as a JSON Web Key.
    fn key(id: &str) -> (EncodingKey, Value) {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let url = |bytes: &[u8]| base64(bytes).replace('+', "-").replace('/', "_").replace('=', "");
        let point = pair.public_key_raw();
        let public = json!({"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": id,
            "x": url(&point[1..33]), "y": url(&point[33..65])});
        (EncodingKey::from_ec_der(&pair.serialize_der()), public)
    }

    fn token(key: &EncodingKey, claims: &Value) -> String {
        let header = Header { kid: Some("a".to_owned()), ..Header::new(Algorithm::ES256) };
        encode(&header, claims, key).unwrap()
    }

    fn claims() -> Value {
        json!({"iss": ISSUER, "sub": "system:serviceaccount:n:default", "aud": ["test"], "exp": NOW + 600, "nbf": NOW, "iat": NOW,
            "kubernetes.io": {"namespace": "n", "serviceaccount": {"name": "default", "uid": "u"}}})
    }

    /// The answers of an issuer: status and body by path.
    type Pages = BTreeMap<&'static str, (&'static str, String)>;

    fn pages(keys: &[&Value]) -> Pages {
        let configuration = json!({"issuer": ISSUER, "jwks_uri": format!("{ISSUER}/keys")});
        BTreeMap::from([
            ("/.well-known/openid-configuration", ("200 OK", configuration.to_string())),
            ("/keys", ("200 OK", json!({ "keys": keys }).to_string())),
        ])
    }

    /// Runs the program with a token; returns its log without times, its exit code, and the requests.
    fn ran(token: &str, pages: &Pages) -> (String, u8, Vec<NetworkCallSeen>) {
        let variables = ["HOST", "PORT"].map(|name| (format!("KUBERNETES_SERVICE_{name}"), "1".to_owned()));
        let environment = Environment { now: NOW, variables: variables.to_vec(), ..Environment::default() };
        let env = Env::new(&Arc::new(environment));
        for (path, text) in [
            ("/token", token),
            (&*format!("{ACCOUNT}/token"), "bearer\n"),
            (&*format!("{ACCOUNT}/ca.crt"), "PEM"),
        ] {
            env.make_folders(ACCOUNT).unwrap();
            env.write(path, text.as_bytes()).unwrap();
        }
        let argv = ["agnhost", "--token-path", "/token", "--audience=test"].map(str::to_owned);
        let call = ToolCall { env: &env, argv: &argv, input: &[] };
        let mut effects: std::collections::VecDeque<Effect> = run(&call, &argv[1..]).then.into();
        let (mut log, mut code, mut seen) = (String::new(), 0, Vec::new());
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Error(text) => log.push_str(&String::from_utf8(text).unwrap()[20..]),
                Effect::Code(end) => code = end,
                Effect::Network(call, then) => {
                    let (call, reply) = answered(*call, pages);
                    seen.push(call);
                    effects.extend(then.reply(&env, reply));
                }
                other => panic!("{other:?}"),
            }
        }
        (log, code, seen)
    }

    /// A request: its head, and the authority that its client trusts.
    type NetworkCallSeen = (String, Vec<u8>);

    fn answered(call: crate::shell::network::NetworkCall, pages: &Pages) -> (NetworkCallSeen, NetworkReply) {
        let head = String::from_utf8(call.send).unwrap();
        let path = head.split(' ').nth(1).unwrap();
        let result = match pages.get(path) {
            Some((status, body)) => {
                let bytes =
                    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes();
                Ok(Received { peer: "10.0.0.1:6443".parse().unwrap(), bytes, end: ReceivedEnd::Done })
            }
            None => Err(NetworkFailure::Refused("10.0.0.1".parse().unwrap())),
        };
        let Some(TlsTrust::Authorities(trusted)) = call.tls.map(|tls| tls.trust) else {
            panic!("it verifies its server")
        };
        ((head, trusted.to_vec()), NetworkReply { result, room: None, answer: None })
    }

    #[test]
    fn a_token_is_verified_by_the_documents_of_its_issuer() {
        let ((own, public), (_, other)) = (key("a"), key("b"));
        let (log, code, seen) = ran(&token(&own, &claims()), &pages(&[&other, &public]));
        assert_eq!(code, 0, "{log}");
        assert!(
            log.starts_with(
                "OK: Got token\nvalidating with in-cluster discovery\nOK: got issuer https://issuer:6443\n"
            ),
            "{log}"
        );
        assert!(log.contains("OK: Validated signature on JWT\nOK: Got valid claims from token!\n"), "{log}");
        assert!(log.contains("ServiceAccount:openidmetadata.kubeName{Name:\"default\", UID:\"u\"}"), "{log}");
        assert_eq!(seen.len(), 2);
        for (head, trusted) in seen {
            assert!(
                head.contains("Host: issuer:6443\r\n") && head.contains("Authorization: Bearer bearer\r\n"),
                "{head}"
            );
            assert_eq!(trusted, b"PEM");
        }
    }

    #[test]
    fn a_token_that_its_issuer_does_not_confirm_is_refused_inside_and_outside_of_the_cluster() {
        let ((own, public), (_, other)) = (key("a"), key("a"));
        let good = || (claims(), pages(&[&public]));
        let changed = |claim: &str, value: Value| {
            let (mut claims, pages) = good();
            claims[claim] = value;
            (claims, pages)
        };
        let replaced = |path: &'static str, status: &'static str, body: &str| {
            let (claims, mut pages) = good();
            pages.insert(path, (status, body.to_owned()));
            (claims, pages)
        };
        let configuration = "/.well-known/openid-configuration";
        for ((claims, pages), expected) in [
            ((claims(), pages(&[&other])), "failed to verify id token signature"),
            ((claims(), pages(&[])), "failed to verify id token signature"),
            (changed("aud", json!("api")), "oidc: expected audience \"test\" got [\"api\"]"),
            (
                changed("exp", json!(NOW - 1)),
                "oidc: token is expired (Token Expiry: 1970-01-12 13:46:39 +0000 UTC)",
            ),
            (
                changed("nbf", json!(NOW + 301)),
                "before the nbf (not before) time: 1970-01-12 13:51:41 +0000 UTC",
            ),
            (changed("iss", json!("issuer")), "unsupported protocol scheme"),
            (replaced(configuration, "403 Forbidden", "no"), "403 Forbidden: no"),
            (
                replaced(configuration, "200 OK", "{\"issuer\": \"https://liar\"}"),
                "expected \"https://issuer:6443\" got \"https://liar\"",
            ),
            (replaced(configuration, "200 OK", "<html>"), "failed to decode provider discovery object"),
            (
                replaced("/keys", "500 Internal Server Error", ""),
                "get keys failed: 500 Internal Server Error: ",
            ),
            ((claims(), Pages::new()), "dial tcp 10.0.0.1:6443: connect: connection refused"),
        ] {
            let (log, code, seen) = ran(&token(&own, &claims), &pages);
            assert_eq!(code, FATAL, "{log}");
            assert_eq!(log.matches(expected).count(), 2, "{expected}: {log}");
            assert!(!log.contains("OK: Validated"), "{log}");
            // The second half of the requests is of the client outside, which has no token and trusts no authority of the cluster.
            for (head, trusted) in &seen[seen.len() / 2..] {
                assert!(!head.contains("Bearer") && trusted.is_empty(), "{head}");
            }
        }
    }

    #[test]
    fn what_is_no_token_ends_the_program() {
        for text in ["", "a.b.c", "\u{0}", "eyJhbGciOiJub25lIn0.e30."] {
            let (log, code, seen) = ran(text, &Pages::new());
            assert_eq!((code, seen.len()), (FATAL, 0), "{log}");
        }
    }
}
