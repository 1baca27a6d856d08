//! The client of kube-rs as a [`Transport`], and the sources of its types.

use super::request::ResourcePath;
use super::{Kube, KubeSource, Raw, ResponseBody, Transport};
use crate::SourceError;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt;
use kube_client::Client;
use kube_client::client::Body;
use kube_client::core::Resource;
use serde::de::DeserializeOwned;
use std::sync::Arc;

impl Transport for Client {
    fn send(&self, request: Request<()>) -> BoxFuture<'static, Result<Response<ResponseBody>, SourceError>> {
        let client = self.clone();
        async move {
            let sent = client.send(request.map(|()| Body::empty())).await;
            let response = sent.map_err(|error| unsent(&error))?;
            Ok(response.map(|body| body.map_err(std::io::Error::other).boxed_unsync()))
        }
        .boxed()
    }
}

impl<K> KubeSource<Kube<K>>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
{
    /// A source of a statically typed resource.
    pub fn new(client: &Client) -> Self
    where
        K: Resource<DynamicType = ()>,
    {
        Self::of(client, &())
    }

    /// A source of a resource known at run time: as `DynamicObject`, or as `PartialObjectMeta`, for which the
    /// server sends only the metadata.
    pub fn of(client: &Client, resource: &K::DynamicType) -> Self {
        let resource = ResourcePath {
            group: K::group(resource).into_owned(),
            version: K::version(resource).into_owned(),
            plural: K::plural(resource).into_owned(),
            ..ResourcePath::default()
        };
        let decode = |raw: &Raw<'_>| {
            let object: K = serde_json::from_slice(raw.json()).map_err(|error| error.to_string())?;
            let revision = raw.revision_of(object.meta().resource_version.as_deref().unwrap_or_default());
            Ok(Kube::at(object, revision))
        };
        Self::at(Arc::new(client.clone()), resource, K::metadata_api(), Arc::new(decode))
    }
}

/// Converts an error of the client: configuration errors are fatal, all others are retried.
fn unsent(error: &kube_client::Error) -> SourceError {
    match error {
        kube_client::Error::BuildRequest(_) | kube_client::Error::HttpError(_) => {
            SourceError::Fatal(error.to_string())
        }
        _ => {
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(error);
            while let Some(error) = cause {
                text = format!("{text}: {error}");
                cause = error.source();
            }
            SourceError::Unreachable(text)
        }
    }
}
