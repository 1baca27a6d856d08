//! The proxy to aggregated API servers. Requests are authenticated and authorized here and proxied with
//! `X-Remote-*` headers; the API server interprets and counts them. `aggregator` decides which server it is
//! and whether it is available.

use super::query::Query;
use super::respond::{plain, refusal_as};
use super::stream::{escape, headers, peer};
use super::{HttpBody, Rest, content};
use crate::aggregator::{self, AggregatedApi};
use futures::StreamExt as _;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Uri};
use hyper::upgrade::OnUpgrade;
use kstore_access::authz;
use kstore_access::percent_encoding::decode;
use kstore_access::resource_location::{self, ResourceLocation};
use kstore_api::status::Status;
use kstore_registry::user::UserInfo;
use kstore_storage::limits::AGGREGATED_HEAD;

impl Rest {
    /// Authorizes and proxies a request. The response streams until it ends, this server stops, or the
    /// client's credentials expire.
    pub(super) async fn proxy_aggregated(
        &self,
        api: &AggregatedApi,
        mut parts: Parts,
        body: HttpBody,
        user: &UserInfo,
    ) -> Response<HttpBody> {
        parts.uri = with_plain_path(&parts.uri);
        if let Err(status) = self.authorize_aggregated(&parts, user).await {
            return refusal_as(&status, content::of_status(&parts.headers));
        }
        self.forward_aggregated(api, parts, body, user).await
    }

    async fn forward_aggregated(
        &self,
        api: &AggregatedApi,
        mut parts: Parts,
        body: HttpBody,
        user: &UserInfo,
    ) -> Response<HttpBody> {
        if !api.is_available {
            return unavailable("service unavailable");
        }
        let expiry = self.streams.expiry(&parts);
        let upgrade = headers::upgrade(&parts.headers);
        let client = parts.extensions.remove::<OnUpgrade>().filter(|_| upgrade.is_some());
        let watches =
            resource_location::location(parts.uri.path()).is_some_and(|location| is_watch(&parts, &location));
        let is_long = watches || client.is_some();
        let from = peer(&parts);
        headers::to_backend(&mut parts.headers, upgrade.filter(|_| client.is_some()), from, None);
        parts.headers.remove(http::header::HOST);
        if let Err(error) = aggregator::headers::identify(&mut parts.headers, user) {
            return unavailable(&error.to_string());
        }
        let mut request = Request::new(body);
        (*request.method_mut(), *request.uri_mut()) = (parts.method, parts.uri);
        *request.headers_mut() = parts.headers;
        let answered = self.aggregator.forward(&api.service, request);
        let answered = match is_long {
            true => answered.await,
            false => match tokio::time::timeout(AGGREGATED_HEAD, answered).await {
                Ok(answered) => answered,
                Err(_) => return unavailable("net/http: timeout awaiting response headers"),
            },
        };
        match (answered, client) {
            (Err(error), _) => unavailable(&error.to_string()),
            (Ok(answered), Some(client)) if answered.status() == StatusCode::SWITCHING_PROTOCOLS => {
                self.streams.join_connections(answered, client, expiry)
            }
            (Ok(answered), _) if answered.status() == StatusCode::SWITCHING_PROTOCOLS => {
                unavailable("the API server switched protocols without a request")
            }
            (Ok(answered), _) => {
                let (mut head, body) = answered.into_parts();
                headers::to_client(&mut head.headers);
                let stop = self.stop.clone();
                let end = async move {
                    tokio::select! {
                        biased;
                        () = stop.cancelled_owned() => {}
                        () = expiry.reached() => {}
                    }
                };
                let pieces = body.into_data_stream().take_until(Box::pin(end));
                Response::from_parts(head, HttpBody::from_stream(pieces))
            }
        }
    }

    async fn authorize_aggregated(&self, parts: &Parts, user: &UserInfo) -> Result<(), Status> {
        if let Some(location) = resource_location::location(parts.uri.path()) {
            return self.authorize(parts, user, &location).await;
        }
        self.pipeline.cache().fresh().await.map_err(kstore_registry::error::of_read)?;
        let verb = super::path_verb(&parts.method);
        let target = authz::Target::Path(parts.uri.path());
        let attributes = authz::Attributes { user, verb: &verb, target, more: authz::More::default() };
        self.pipeline.authorizer().check(&attributes).await
    }
}

/// The URI with its path decoded and encoded again, as kube-aggregator forwards it. Authorization and the API server
/// thus see the same segments, also if the client encoded a slash.
fn with_plain_path(uri: &Uri) -> Uri {
    let path = escape(&decode(uri.path()));
    let target = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    // What was encoded is a valid path. Without one the request goes on as it came.
    target.parse().unwrap_or_else(|_| uri.clone())
}

fn is_watch(parts: &Parts, location: &ResourceLocation) -> bool {
    let reads = matches!(parts.method, Method::GET | Method::HEAD);
    reads && (location.watch || Query::parse(parts.uri.query()).flag("watch"))
}

/// A 503 in plain text, as kube-aggregator returns it.
fn unavailable(why: &str) -> Response<HttpBody> {
    plain(StatusCode::SERVICE_UNAVAILABLE, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aggregated_server_sees_the_segments_that_were_authorized() {
        let table = [
            ("/apis/g/v1/namespaces/a/things/b?watch=1", "/apis/g/v1/namespaces/a/things/b?watch=1"),
            ("/apis/g/v1/namespaces/a%2Fthings%2fb/status", "/apis/g/v1/namespaces/a/things/b/status"),
            ("/apis/g/v1/things/%61%20%25?a=%2F", "/apis/g/v1/things/a%20%25?a=%2F"),
            ("/apis/g/v1/things/a%zz", "/apis/g/v1/things/a%25zz"),
        ];
        for (sent, forwarded) in table {
            let uri = with_plain_path(&sent.parse().unwrap());
            assert_eq!(uri.to_string(), forwarded);
            let location = resource_location::location(uri.path());
            let again = resource_location::location(with_plain_path(&uri).path());
            assert!(location == again || uri.path().contains("%25"), "{sent}");
        }
    }
}
