//! How many requests without credentials one connection may have in flight. Requests with credentials are not
//! counted.

use crate::authn::{Peer, UserInfo};
use crate::limits;
use crate::pipeline::TOO_MANY;
use http::Extensions;
use kstore_api::status::Status;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots of one connection without a client certificate: an extension of each of its requests.
#[derive(Clone, Debug)]
pub(crate) struct AnonymousSlots(Arc<Semaphore>);

impl AnonymousSlots {
    /// New slots for a connection; `None` if its peer presented a certificate.
    pub(crate) fn of(peer: &Peer) -> Option<Self> {
        let is_unknown = matches!(peer, Peer::Tls { certificate: None, proxy: None, .. });
        is_unknown.then(|| Self(Arc::new(Semaphore::new(limits::ANONYMOUS_IN_FLIGHT))))
    }

    /// Takes a slot for a request of `user` if it needs one; hold it while the request is being answered.
    ///
    /// # Errors
    /// 429 if [`limits::ANONYMOUS_IN_FLIGHT`] anonymous requests of the connection are in flight.
    pub(crate) fn enter(
        extensions: &Extensions,
        user: &UserInfo,
    ) -> Result<Option<OwnedSemaphorePermit>, Status> {
        match extensions.get() {
            Some(Self(slots)) if user.is_anonymous() => {
                let slot = slots.clone().try_acquire_owned();
                slot.map(Some).map_err(|_| Status::too_many_requests(TOO_MANY, 1))
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_requests_in_flight_are_bounded_per_connection() {
        let peer = Peer::tls(None, "127.0.0.1:1".parse().unwrap());
        let mut extensions = Extensions::new();
        extensions.insert(AnonymousSlots::of(&peer).unwrap());
        let (anonymous, ann) = (UserInfo::anonymous(), UserInfo::new("ann", [""; 0]));
        let held: Vec<_> = (0..limits::ANONYMOUS_IN_FLIGHT)
            .map(|_| AnonymousSlots::enter(&extensions, &anonymous).unwrap())
            .collect();
        assert_eq!(AnonymousSlots::enter(&extensions, &anonymous).unwrap_err().code, 429);
        assert!(AnonymousSlots::enter(&extensions, &ann).unwrap().is_none());
        drop(held);
        assert!(AnonymousSlots::enter(&extensions, &anonymous).unwrap().is_some());
    }
}
