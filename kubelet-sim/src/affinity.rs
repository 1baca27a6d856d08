//! Session affinity of Services: the endpoint that a client has used is used again for some time. Pure.

use crate::limits::AFFINITIES;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A client of a port of a Service: the Service's uid, its port, and the client's address.
type Session = (Arc<str>, u16, IpAddr);

/// The endpoints that clients use, until when.
#[derive(Debug, Default)]
pub(crate) struct Affinities(BTreeMap<Session, (SocketAddr, Instant)>);

impl Affinities {
    /// The endpoint for a new connection of a client: the one that it has used, if that is still among `all` and not too long ago, else
    /// what `choose` says. `None` if there is none.
    pub(crate) fn endpoint(
        &mut self,
        session: Session,
        all: &[SocketAddr],
        (timeout, now): (Duration, Instant),
        choose: impl FnOnce() -> Option<SocketAddr>,
    ) -> Option<SocketAddr> {
        let known = self.0.get(&session).filter(|(to, until)| *until > now && all.contains(to));
        let to = known.map(|(to, _)| *to).or_else(choose)?;
        if self.0.len() >= AFFINITIES && !self.0.contains_key(&session) {
            self.0.retain(|_, (_, until)| *until > now);
            // Still too many: the session that ends first.
            let first =
                self.0.iter().min_by_key(|(_, (_, until))| *until).map(|(session, _)| session.clone());
            if let Some(first) = first.filter(|_| self.0.len() >= AFFINITIES) {
                self.0.remove(&first);
            }
        }
        // Each connection prolongs it.
        self.0.insert(session, (to, now.checked_add(timeout).unwrap_or(now)));
        Some(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_stays_with_its_endpoint_until_it_leaves_or_the_time_is_over() {
        let all: [SocketAddr; 2] = ["10.0.0.1:80", "10.0.0.2:80"].map(|text| text.parse().unwrap());
        let (mut affinities, timeout) = (Affinities::default(), Duration::from_secs(10));
        let session = |client: u8| (Arc::from("uid"), 80, IpAddr::from([10, 1, 0, client]));
        let start = Instant::now();
        let mut ask = |client: u8, all: &[SocketAddr], seconds: u64, choice: usize| {
            let now = start + Duration::from_secs(seconds);
            affinities.endpoint(session(client), all, (timeout, now), || all.get(choice).copied())
        };
        assert_eq!(ask(1, &all, 0, 1), Some(all[1]));
        assert_eq!(ask(1, &all, 9, 0), Some(all[1]));
        assert_eq!(ask(1, &all, 18, 0), Some(all[1]), "the second connection prolonged it");
        assert_eq!(ask(1, &all, 28, 0), Some(all[0]));
        assert_eq!(ask(2, &all, 28, 1), Some(all[1]), "another client has its own");
        assert_eq!(ask(1, &all[1..], 29, 0), Some(all[1]), "its endpoint is gone");
        assert_eq!(ask(1, &[], 29, 0), None);
        for client in 0..=u8::MAX {
            for uid in 0..=AFFINITIES / 256 {
                let session = (Arc::from(uid.to_string()), 80, IpAddr::from([10, 1, 0, client]));
                affinities.endpoint(session, &all, (timeout, start), || Some(all[0]));
            }
        }
        assert!(affinities.0.len() <= AFFINITIES);
    }
}
