//! [`LocalProxy`]: the page on a port of loopback, and what it reads from the server, with the permissions of one client.

use super::gate::{Wanted, judge};
use super::headers;
use super::placement::Placements;
use super::response::{plain, typed};
use super::session::{Halves, Login};
use anyhow::Context;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use http::header::{CONTENT_TYPE, COOKIE, LOCATION, SET_COOKIE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kstore_client::Client;
use kstore_nondet::Nondet;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Bytes of the largest request body: a link token.
const BODY_BYTES: usize = 1024;
/// Header with the key of the session.
const KEY: &str = "kstore-ui";

/// A running local proxy. It ends when it is dropped.
pub(crate) struct LocalProxy {
    page: Arc<Page>,
    _servers: JoinSet<()>,
}

impl LocalProxy {
    /// Listens on 127.0.0.1 and, if the machine has it, on ::1. Port 0 is a free one.
    ///
    /// # Errors
    /// The port is in use.
    pub(crate) async fn start(client: Client, port: u16, nondet: &Nondet) -> anyhow::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address}; see --port"))?;
        let port = listener.local_addr().context("the listener has no address")?.port();
        let login = Login::new(&nondet.rng, nondet.clock.now());
        let page = Arc::new(Page {
            client,
            port,
            nondet: nondet.clone(),
            login: Mutex::new(login),
            placements: Placements::new(),
        });
        let mut servers = JoinSet::new();
        // A machine without IPv6, or another program on that port: the page is at 127.0.0.1.
        let second = TcpListener::bind(SocketAddr::from((Ipv6Addr::LOCALHOST, port))).await.ok();
        for listener in [Some(listener), second].into_iter().flatten() {
            let router = Router::new().fallback(serve).with_state(page.clone());
            servers.spawn(async move {
                // It ends with its process.
                let _ = axum::serve(listener, router).await;
            });
        }
        Ok(Self { page, _servers: servers })
    }

    /// The address with the token: it opens a session once, within a minute.
    pub(crate) fn link(&self) -> String {
        format!("http://127.0.0.1:{}/ui/#login={}", self.page.port, self.page.login.lock().token())
    }

    /// A new such address.
    pub(crate) fn new_link(&self) -> String {
        self.page.login.lock().renew(&self.page.nondet.rng, self.page.nondet.clock.now());
        self.link()
    }
}

struct Page {
    client: Client,
    port: u16,
    nondet: Nondet,
    login: Mutex<Login>,
    placements: Placements,
}

async fn serve(State(page): State<Arc<Page>>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let mut response = page.answer(&parts, body).await;
    headers::set(response.headers_mut());
    response
}

impl Page {
    async fn answer(&self, parts: &Parts, body: Body) -> Response<Body> {
        match judge(parts, self.port) {
            Err(refused) => plain(refused.code, refused.text),
            Ok(Wanted::File(path)) => match kstore_ui::file(path) {
                Some(file) => typed(StatusCode::OK, file.content_type, Body::from(file.bytes)),
                None => plain(StatusCode::NOT_FOUND, "the page has no such file"),
            },
            Ok(Wanted::Front) => {
                let mut response = plain(StatusCode::TEMPORARY_REDIRECT, "the page is at /ui/");
                response.headers_mut().insert(LOCATION, HeaderValue::from_static("/ui/"));
                response
            }
            Ok(Wanted::OpenSession) => self.open_session(parts, body).await,
            Ok(Wanted::CloseSession) => self.close_session(parts),
            Ok(Wanted::Read(_) | Wanted::Placement(_)) if !self.is_admitted(&parts.headers) => {
                plain(StatusCode::UNAUTHORIZED, "there is no session: start kstore-server ui")
            }
            Ok(Wanted::Read(path)) => self.read(path).await,
            Ok(Wanted::Placement(query)) => self.placements.answer(&self.client, query).await,
        }
    }

    /// Exchanges a link token for the two halves of a session.
    async fn open_session(&self, parts: &Parts, body: Body) -> Response<Body> {
        // Other sites can send this media type only after asking, which is refused.
        if parts.headers.get(CONTENT_TYPE).is_none_or(|kind| kind != "application/json") {
            return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the token comes as application/json");
        }
        let body = Limited::new(body, BODY_BYTES).collect().await.map(|body| body.to_bytes());
        let Some(asked) = body.ok().and_then(|body| serde_json::from_slice::<SessionRequest>(&body).ok())
        else {
            return plain(StatusCode::BAD_REQUEST, "the body is no token");
        };
        let opened = self.login.lock().open(&asked.token, &self.nondet.rng, self.nondet.clock.now());
        match opened {
            Err(error) => plain(StatusCode::UNAUTHORIZED, &error.to_string()),
            Ok(Halves { cookie, key }) => {
                let mut response =
                    typed(StatusCode::OK, "application/json", Body::from(json!({"key": key}).to_string()));
                let cookie = format!("{}={cookie}; HttpOnly; SameSite=Strict; Path=/", self.cookie_name());
                let cookie = HeaderValue::try_from(cookie).expect("secrets are plain ASCII");
                response.headers_mut().insert(SET_COOKIE, cookie);
                response
            }
        }
    }

    fn close_session(&self, parts: &Parts) -> Response<Body> {
        if !self.is_admitted(&parts.headers) {
            return plain(StatusCode::UNAUTHORIZED, "there is no session");
        }
        self.login.lock().close();
        plain(StatusCode::OK, "the session has ended")
    }

    /// Passes a GET on to the server. Of the request only the path is passed on; of the response no header but the media type.
    async fn read(&self, path: &str) -> Response<Body> {
        match self.client.open_path(path).await {
            Ok(found) => {
                let (head, body) = found.into_parts();
                let mut response = Response::new(Body::new(body));
                *response.status_mut() = head.status;
                if let Some(kind) = head.headers.get(CONTENT_TYPE) {
                    response.headers_mut().insert(CONTENT_TYPE, kind.clone());
                }
                response
            }
            Err(error) => plain(StatusCode::BAD_GATEWAY, &format!("the server does not answer: {error}")),
        }
    }

    /// Whether a request has both halves of the session.
    fn is_admitted(&self, headers: &HeaderMap) -> bool {
        let name = self.cookie_name();
        let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let mut pairs =
            cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let cookie = pairs.find(|(own, _)| *own == name).map(|(_, value)| value);
        let key = headers.get(KEY).and_then(|key| key.to_str().ok());
        let (Some(cookie), Some(key)) = (cookie, key) else { return false };
        self.login.lock().admits(cookie, key, self.nondet.clock.now())
    }

    /// The name of the cookie: browsers keep one jar for all ports of a host.
    fn cookie_name(&self) -> String {
        format!("kstore-ui-{}", self.port)
    }
}

/// The body of a request for a session.
#[derive(Deserialize)]
struct SessionRequest {
    token: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http_body_util::Full;
    use hyper_util::client::legacy;
    use hyper_util::rt::TokioExecutor;

    /// A proxy before a server that answers each path with the path.
    async fn proxy() -> LocalProxy {
        let service = axum::Router::new().fallback(async |request: Request<Body>| {
            assert!(request.headers().get(COOKIE).is_none() && request.headers().get(KEY).is_none());
            request.uri().to_string()
        });
        let service = tower_service(service);
        LocalProxy::start(Client::over(service, "test"), 0, &Nondet::simulated(1)).await.unwrap()
    }

    fn tower_service(
        router: Router,
    ) -> impl tower::Service<
        Request<tonic::body::Body>,
        Response = Response<Body>,
        Error = std::convert::Infallible,
        Future: Send,
    > + Clone
    + Send
    + Sync
    + 'static {
        use tower::ServiceExt as _;
        tower::service_fn(move |request: Request<tonic::body::Body>| {
            router.clone().oneshot(request.map(Body::new))
        })
    }

    /// Host and port of the page.
    fn address(proxy: &LocalProxy) -> String {
        proxy.link().split('/').nth(2).unwrap().to_owned()
    }

    async fn ask(request: http::request::Builder, body: &'static str) -> (u16, HeaderMap, String) {
        let client: legacy::Client<_, Full<Bytes>> =
            legacy::Client::builder(TokioExecutor::new()).build_http();
        let response = client
            .request(request.body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap())
            .await
            .unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head.status.as_u16(), head.headers, String::from_utf8_lossy(&body).into_owned())
    }

    #[tokio::test]
    async fn a_session_needs_the_link_once_and_then_both_halves() {
        let proxy = proxy().await;
        let at = |path: &str| format!("http://{}{path}", address(&proxy));
        let link = proxy.link();
        let token = link.split_once("#login=").unwrap().1;
        let body: &'static str = Box::leak(format!(r#"{{"token":"{token}"}}"#).into_boxed_str());
        let login = || Request::post(at("/ui/session")).header(CONTENT_TYPE, "application/json");
        assert_eq!(ask(Request::get(at("/kstore/v1/rows")), "").await.0, 401);
        assert_eq!(ask(Request::post(at("/ui/session")), body).await.0, 415);
        assert_eq!(ask(login(), "{}").await.0, 400);
        let (code, headers, answer) = ask(login(), body).await;
        assert_eq!(code, 200, "{answer}");
        let cookie = headers[SET_COOKIE].to_str().unwrap();
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"), "{cookie}");
        let cookie = cookie.split(';').next().unwrap();
        let key = answer.split('"').nth(3).unwrap();
        let read = || Request::get(at("/api/v1/pods?limit=1"));
        assert_eq!(ask(read().header(COOKIE, cookie), "").await.0, 401, "the cookie alone");
        assert_eq!(ask(read().header(KEY, key), "").await.0, 401, "the key alone");
        let both = || read().header(COOKIE, format!("a=b; {cookie}")).header(KEY, key);
        let (code, _, answer) = ask(both(), "").await;
        assert_eq!((code, answer.as_str()), (200, "/api/v1/pods?limit=1"));
        let placement = || Request::get(at("/ui/placement?pod=a"));
        assert_eq!(ask(placement().header(COOKIE, cookie), "").await.0, 401, "the cookie alone");
        assert_eq!(ask(placement().header(COOKIE, cookie).header(KEY, key), "").await.0, 400);
        assert_eq!(ask(login(), body).await.0, 401, "a link opens one session");
        assert_eq!(ask(both(), "").await.0, 401, "its second use ended the session");
    }

    #[tokio::test]
    async fn every_response_has_the_policy_and_no_other_site_may_read_it() {
        let proxy = proxy().await;
        for path in ["/ui/", "/ui/app.js", "/ui/none", "/", "/api/v1/pods", "/metrics"] {
            let request = Request::get(format!("http://{}{path}", address(&proxy)));
            let (code, headers, _) = ask(request, "").await;
            let of = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
            assert!(
                of("content-security-policy").contains("default-src 'none'; script-src 'self'"),
                "{path} {code}"
            );
            assert_eq!(
                [
                    of("x-content-type-options"),
                    of("referrer-policy"),
                    of("cache-control"),
                    of("access-control-allow-origin")
                ],
                ["nosniff", "no-referrer", "no-store", ""],
                "{path} {code}"
            );
        }
    }
}
