//! [`TaintedSlices`]: the cache of ResourceSlices, reduced to the names of devices and their NoExecute taints.

use super::plan::NO_EXECUTE;
use crate::caches::{DeviceId, Sources, Watched};
use crate::resource::resource_of;
use crate::view::{self, Slim};
use k8s_openapi::api::resource::v1::{DeviceTaint, ResourceSlice};
use kstore_client::WatchParams;
use kstore_informer::{Builder, Index, Informer};
use serde::{Deserialize, Deserializer};
use std::sync::Arc;

/// A ResourceSlice with its devices.
pub(super) type Slice = Slim<SliceSpec>;

/// Pool and devices of a slice.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct SliceSpec {
    /// Driver that published the slice.
    pub driver: String,
    /// Pool that the slice is a part of.
    pub pool: Pool,
    /// All devices, with the taints that evict pods.
    #[serde(deserialize_with = "devices")]
    pub devices: Vec<SliceDevice>,
}

/// Name and generation of a pool.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Pool {
    /// Name of the pool.
    pub name: String,
    /// Generation of the pool to which the slice belongs; slices of older generations do not count.
    pub generation: i64,
}

/// A device and its taints that evict pods.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct SliceDevice {
    /// Name in the pool.
    pub name: String,
    /// NoExecute taints.
    pub taints: Vec<DeviceTaint>,
}

/// Decodes devices and keeps their NoExecute taints.
fn devices<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<SliceDevice>, D::Error> {
    let mut devices = Vec::<SliceDevice>::deserialize(from)?;
    devices.iter_mut().for_each(|device| device.taints.retain(|taint| taint.effect == NO_EXECUTE));
    Ok(devices)
}

/// A pool by its driver and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PoolId {
    /// Driver of the pool.
    pub driver: String,
    /// Name of the pool.
    pub pool: String,
}

/// The pool of a slice.
pub(super) fn pool_of(slice: &Slice) -> PoolId {
    PoolId { driver: slice.spec.driver.clone(), pool: slice.spec.pool.name.clone() }
}

/// The tainted devices of a slice.
pub(super) fn devices_of(slice: &Slice) -> impl Iterator<Item = DeviceId> {
    let PoolId { driver, pool } = pool_of(slice);
    slice.spec.devices.iter().filter(|device| !device.taints.is_empty()).map(move |device| DeviceId {
        driver: driver.clone(),
        pool: pool.clone(),
        device: device.name.clone(),
    })
}

/// Cache of all ResourceSlices.
#[derive(Clone)]
pub(super) struct TaintedSlices {
    pub informer: Informer<Slice>,
    of_pool: Index<Slice, PoolId>,
}

impl Watched for TaintedSlices {
    fn start(from: &Sources<'_>) -> Self {
        let of_pool = Index::new(|slice: &Slice, emit: &mut dyn FnMut(PoolId)| emit(pool_of(slice)));
        let source = from.multi.project::<ResourceSlice, _, _>(WatchParams::default(), view::decode::<Slice>);
        let builder = Builder::new(source).index(&of_pool);
        let resource = Some(resource_of::<ResourceSlice>());
        Self { informer: from.start("resourceslices", resource, builder), of_pool }
    }
}

impl TaintedSlices {
    /// The slices of a pool, of all generations.
    pub(super) fn of_pool(&self, pool: &PoolId) -> Vec<Arc<Slice>> {
        self.informer.by(&self.of_pool, pool)
    }
}
