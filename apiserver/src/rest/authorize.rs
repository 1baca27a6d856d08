//! Authorization of requests that do not reach the pipeline. Authorization failures take precedence over all
//! other errors of a request: a caller without permission must not learn which resources exist, or whether a
//! body is valid. The pipeline authorizes all other requests.

use super::query::Query;
use super::respond::refusal_as;
use super::router::{Operation, ResourcePath};
use super::{HttpBody, Rest, content, path};
use http::Response;
use http::request::Parts;
use kstore_access::authz::{Attributes, More, Selects, Target, resource_verb};
use kstore_access::resource_location::ResourceLocation;
use kstore_api::selector::{field, label};
use kstore_api::status::Status;
use kstore_registry::user::UserInfo;
use kstore_storage::metrics::{self, Kind};
use tokio::time::Instant;

impl Rest {
    /// Refuses a request with `status`, or with 403 if its caller lacks the permission for it.
    pub(super) async fn refuse(
        &self,
        parts: &Parts,
        user: &UserInfo,
        location: &ResourceLocation,
        status: Status,
    ) -> Response<HttpBody> {
        let status = self.authorize(parts, user, location).await.err().unwrap_or(status);
        refusal_as(&status, content::of_status(&parts.headers))
    }

    /// Answers a request about a group that does not exist.
    pub(super) async fn refuse_group(
        &self,
        parts: &Parts,
        user: &UserInfo,
        location: &ResourceLocation,
    ) -> Response<HttpBody> {
        match self.authorize(parts, user, location).await {
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
    pub(super) async fn authorize_write(
        &self,
        parts: &Parts,
        user: &UserInfo,
        location: &ResourceLocation,
    ) -> Result<(), Status> {
        let verb = resource_verb(&parts.method, !location.name.is_empty(), false);
        match self.pipeline.authorizer().check(&attributes(user, &verb, location, &location.name)).await {
            Ok(()) => Ok(()),
            // The permission may just have been granted; check again with the newest permissions.
            Err(_) => self.authorize(parts, user, location).await,
        }
    }

    /// Checks whether the caller may make this request, by permissions that include everything that was
    /// answered before it.
    pub(super) async fn authorize(
        &self,
        parts: &Parts,
        user: &UserInfo,
        location: &ResourceLocation,
    ) -> Result<(), Status> {
        self.pipeline.cache().fresh().await.map_err(kstore_registry::error::of_read)?;
        let query = Query::parse(parts.uri.query());
        let named = !location.name.is_empty();
        let verb = resource_verb(&parts.method, named, location.watch || query.flag("watch"));
        let fields = field::Selector::parse(query.get("fieldSelector")).unwrap_or_default();
        let labels = label::Selector::parse(query.get("labelSelector"));
        let labels = labels.unwrap_or_else(|_| label::Selector::everything());
        let selected = fields.required(field::NAME).map(str::to_owned);
        let name = match selected {
            Some(selected) if !named && matches!(verb.as_str(), "list" | "watch") => selected,
            _ => location.name.clone(),
        };
        let began = Instant::now();
        let mut attributes = attributes(user, &verb, location, &name);
        if matches!(verb.as_str(), "list" | "watch" | "deletecollection") {
            attributes.more.selects = Some(Selects { fields: &fields, labels: &labels });
        }
        let verdict = self.pipeline.authorizer().check(&attributes).await;
        self.pipeline.metrics().authorized(verdict.is_ok(), began.elapsed());
        verdict
    }
}

fn attributes<'a>(
    user: &'a UserInfo,
    verb: &'a str,
    location: &'a ResourceLocation,
    name: &'a str,
) -> Attributes<'a> {
    let own = location.group.is_empty() && location.resource == "namespaces";
    let target = Target::Resource {
        group: &location.group,
        resource: &location.resource,
        subresource: &location.subresource,
        // A request about a namespace object is also a request in that namespace.
        namespace: if own { &location.name } else { &location.namespace },
        name,
    };
    Attributes { user, verb, target, more: More::default() }
}
