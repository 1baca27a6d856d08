//! Authorization of requests that do not reach the pipeline. Authorization failures take precedence over all
//! other errors of a request: a caller without permission must not learn which resources exist, or whether a
//! body is valid. The pipeline authorizes all other requests.

use super::content;
use super::path;
use super::query::Query;
use super::respond::refusal_as;
use super::router::{self, Operation, Place, ResourcePath};
use super::{HttpBody, Rest};
use crate::authn::UserInfo;
use crate::authz::{Attributes, More, Selects, Target};
use crate::metrics::{self, Kind};
use http::Response;
use http::request::Parts;
use kstore_api::selector::{field, label};
use kstore_api::status::Status;
use tokio::time::Instant;

impl Rest {
    /// Refuses a request with `status`, or with 403 if its caller lacks the permission for it.
    pub(super) async fn refuse(
        &self,
        parts: &Parts,
        user: &UserInfo,
        place: &Place,
        status: Status,
    ) -> Response<HttpBody> {
        let status = self.may(parts, user, place).await.err().unwrap_or(status);
        refusal_as(&status, content::of_status(&parts.headers))
    }

    /// Answers a request about a group that does not exist.
    pub(super) async fn refuse_group(
        &self,
        parts: &Parts,
        user: &UserInfo,
        place: &Place,
    ) -> Response<HttpBody> {
        match self.may(parts, user, place).await {
            Ok(()) => path::not_found(),
            Err(status) => refusal_as(&status, content::of_status(&parts.headers)),
        }
    }

    /// Counts a request that ended before the pipeline.
    pub(super) fn count(&self, operation: Option<Operation>, path: &ResourcePath, code: u16) {
        let below = path.resource.subresource(&path.subresource).map(|sub| sub.name);
        let below = below.or_else(|| path.subresource.is_empty().then_some(""));
        let (Some(operation), Some(below)) = (operation, below) else { return };
        let verb = metrics::verb(operation.verb());
        let kind = Kind::of(verb, path.resource, below, &path.namespace, &path.name);
        self.pipeline.metrics().begin(kind, false).end(code);
    }

    /// Checks whether the caller may send the body of this request. The permissions in the cache suffice to
    /// allow it: the pipeline authorizes the request again, by the newest permissions, after the body was
    /// read.
    pub(super) async fn may_write(
        &self,
        parts: &Parts,
        user: &UserInfo,
        place: &Place,
    ) -> Result<(), Status> {
        let verb = router::verb(&parts.method, !place.name.is_empty(), false);
        match self.pipeline.authorizer().check(&attributes(user, &verb, place, &place.name)).await {
            Ok(()) => Ok(()),
            // The permission may just have been granted; check again with the newest permissions.
            Err(_) => self.may(parts, user, place).await,
        }
    }

    /// Checks whether the caller may make this request, by permissions that include everything that was
    /// answered before it.
    pub(super) async fn may(&self, parts: &Parts, user: &UserInfo, place: &Place) -> Result<(), Status> {
        self.pipeline.cache().fresh().await.map_err(crate::error::of_read)?;
        let query = Query::parse(parts.uri.query());
        let named = !place.name.is_empty();
        let verb = router::verb(&parts.method, named, place.watch || query.flag("watch"));
        let fields = field::Selector::parse(query.get("fieldSelector")).unwrap_or_default();
        let labels = label::Selector::parse(query.get("labelSelector"));
        let labels = labels.unwrap_or_else(|_| label::Selector::everything());
        let selected = fields.required(field::NAME).map(str::to_owned);
        let name = match selected {
            Some(selected) if !named && matches!(verb.as_str(), "list" | "watch") => selected,
            _ => place.name.clone(),
        };
        let began = Instant::now();
        let mut asked = attributes(user, &verb, place, &name);
        if matches!(verb.as_str(), "list" | "watch" | "deletecollection") {
            asked.more.selects = Some(Selects { fields: &fields, labels: &labels });
        }
        let verdict = self.pipeline.authorizer().check(&asked).await;
        self.pipeline.metrics().authorized(verdict.is_ok(), began.elapsed());
        verdict
    }
}

fn attributes<'a>(user: &'a UserInfo, verb: &'a str, place: &'a Place, name: &'a str) -> Attributes<'a> {
    let own = place.group.is_empty() && place.resource == "namespaces";
    let target = Target::Resource {
        group: &place.group,
        resource: &place.resource,
        subresource: &place.subresource,
        // A request about a namespace object is also a request in that namespace.
        namespace: if own { &place.name } else { &place.namespace },
        name,
    };
    Attributes { user, verb, target, more: More::default() }
}
