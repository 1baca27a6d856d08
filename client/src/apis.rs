//! The calls of a [`Client`] by resource: typed, dynamic, and over REST.

use crate::typed::Kind;
use crate::{Api, Client, DynamicApi, Gvr, RestApi};

impl Client {
    /// The calls of one type.
    pub fn api<K: Kind>(&self) -> Api<K> {
        Api::new(self.clone(), Gvr::of::<K>())
    }

    /// The calls of a resource that is known only at run time.
    pub fn dynamic(&self, gvr: Gvr) -> DynamicApi {
        DynamicApi::new(self.clone(), gvr)
    }

    /// The calls of a resource over the REST API, which also reaches the resources of aggregated API servers.
    pub fn rest(&self, gvr: Gvr) -> RestApi {
        RestApi::new(self.clone(), gvr)
    }
}
