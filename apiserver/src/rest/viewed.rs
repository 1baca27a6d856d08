//! REST requests in a view of the past: how it is opened, what it refuses, and what its answers say. `crate::view` has its rules.

use super::respond::{refusal_as, warning_header};
use super::router::{ResourcePath, Route};
use super::{HttpBody, Rest, content, stream};
use crate::view::{View, ViewRange};
use http::header::WARNING;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response};
use kstore_access::authz::{Attributes, More, Target};
use kstore_access::resource_location;
use kstore_api::admission::review::AuditAnnotation;
use kstore_api::status::Status;
use kstore_nondet::Nondet;
use kstore_registry::user::UserInfo;
use std::sync::Arc;

impl Rest {
    /// Opens the view that a request names, and adds it to the request.
    pub(super) async fn open_view(
        &self,
        range: Result<Option<ViewRange>, Status>,
        parts: &mut Parts,
        user: &UserInfo,
    ) -> Result<Arc<View>, Status> {
        let range = range?.ok_or_else(|| Status::bad_request("the request names no revision"))?;
        let now = self.pipeline.nondet().clock.now();
        let view = self.views.open(self.pipeline.cache(), (range, &user.username), now).await?;
        if let Some(trail) = self.trail() {
            trail.annotate(vec![AuditAnnotation { key: "kstore.io/at".into(), value: view.shown() }]);
        }
        parts.extensions.insert(view.clone());
        Ok(view)
    }

    /// Refuses a request in a view with `status`, or with 403 if its caller lacks the permission for it.
    pub(super) async fn refuse_view(
        &self,
        parts: &Parts,
        user: &UserInfo,
        status: Status,
    ) -> Response<HttpBody> {
        if let Some(location) = resource_location::location(parts.uri.path()) {
            return self.refuse(parts, user, &location, status).await;
        }
        let verb = super::path_verb(&parts.method);
        let target = Target::Path(parts.uri.path());
        let attributes = Attributes { user, verb: &verb, target, more: More::default() };
        let status = self.pipeline.authorizer().check(&attributes).await.err().unwrap_or(status);
        refusal_as(&status, content::of_status(&parts.headers))
    }

    /// Adds to an answer which state it shows.
    pub(super) fn mark_view(&self, view: &View, headers: &mut HeaderMap) {
        view.add_headers(headers);
        let warning = warning_header(&view.warning(self.pipeline.nondet().clock.now()));
        headers.extend(HeaderValue::from_str(&warning).ok().map(|value| (WARNING, value)));
    }
}

/// Whether a request is refused because it is in a view: it would change something, or reach a node or an aggregated API server.
pub(super) fn is_refused(view: Option<&View>, parts: &Parts, route: &Route, is_aggregated: bool) -> bool {
    let serves = |path: &ResourcePath| {
        let is_stream = stream::StreamKind::of(path).is_some() || stream::is_proxy(path);
        View::serves(&parts.method, path.resource, &path.subresource, is_stream)
    };
    let is_read = || matches!(parts.method, http::Method::GET | http::Method::HEAD);
    view.is_some()
        && match route {
            _ if is_aggregated => true,
            Route::Resource(path) => !serves(path),
            Route::Path | Route::UnknownGroup(_) | Route::UnknownResource(_) => !is_read(),
        }
}

/// The clock of an answer: that of the view, if it is in one.
pub(super) fn clock(parts: &Parts, present: &Nondet) -> Nondet {
    match parts.extensions.get::<Arc<View>>() {
        None => present.clone(),
        Some(view) => view.clock(present),
    }
}
