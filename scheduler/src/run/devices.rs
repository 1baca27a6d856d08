//! The informers of the kinds of devices (claims, classes, slices), combined.

use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use kstore_client::{MultiSource, WatchParams};
use kstore_informer::{Informer, Subscription};

use super::Caches;
use super::storage::changes;
use crate::devices::DeviceChange;
use crate::devices::claim::{self, Claim};
use crate::devices::class::{self, Class};
use crate::devices::slice::{self, Slice};
use crate::storage::Record;

/// The informers of the kinds of devices.
pub(super) struct DeviceInformers {
    claims: Informer<Record<Claim>>,
    classes: Informer<Record<Class>>,
    slices: Informer<Record<Slice>>,
}

/// The subscriptions to the informers of the kinds of devices.
pub(super) struct DeviceSubscriptions {
    claims: Subscription<Record<Claim>>,
    classes: Subscription<Record<Class>>,
    slices: Subscription<Record<Slice>>,
}

impl DeviceInformers {
    /// Starts the informers on the stream `multi`.
    pub(super) fn start(multi: &MultiSource, caches: &Caches<'_>) -> Self {
        let all = WatchParams::default;
        let claims = multi.project::<ResourceClaim, _, _>(all(), claim::decode);
        let classes = multi.project::<DeviceClass, _, _>(all(), class::decode);
        let slices = multi.project::<ResourceSlice, _, _>(all(), slice::decode);
        Self {
            claims: caches.start("scheduler-device-claims", claims),
            classes: caches.start("scheduler-device-classes", classes),
            slices: caches.start("scheduler-device-slices", slices),
        }
    }

    /// Waits for the initial state of each informer. Fails if an informer ended before.
    pub(super) async fn synced(&self) -> Result<(), kstore_informer::Stopped> {
        self.claims.synced().await?;
        self.classes.synced().await?;
        self.slices.synced().await
    }

    /// Subscribes from now on, beginning with the current state.
    pub(super) fn subscribe(&self) -> DeviceSubscriptions {
        DeviceSubscriptions {
            claims: self.claims.subscribe(),
            classes: self.classes.subscribe(),
            slices: self.slices.subscribe(),
        }
    }
}

impl DeviceSubscriptions {
    /// The pending changes, without waiting.
    pub(super) fn try_next(&mut self) -> Vec<DeviceChange> {
        let mut all = Vec::new();
        all.extend(changes(self.classes.try_next(), DeviceChange::Class));
        all.extend(changes(self.slices.try_next(), DeviceChange::Slice));
        all.extend(changes(self.claims.try_next(), DeviceChange::Claim));
        all
    }

    /// The next changes; `None` if an informer has ended. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Vec<DeviceChange>> {
        tokio::select! {
            biased;
            deltas = self.classes.next() => Some(changes(deltas?, DeviceChange::Class).collect()),
            deltas = self.slices.next() => Some(changes(deltas?, DeviceChange::Slice).collect()),
            deltas = self.claims.next() => Some(changes(deltas?, DeviceChange::Claim).collect()),
        }
    }
}
