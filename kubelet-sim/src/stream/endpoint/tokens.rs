//! Tokens of streams: a client gets a URL with one by CRI, and opens the stream with it once and soon.

use crate::limits::{STREAM_TOKENS, TOKEN_TIME};
use kstore_client::StreamRequest;
use kstore_nondet::Rng;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// Letters and digits of tokens: 32, so that each is five random bits.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// Characters of a token: forty bits, of which an attacker on the machine tries few within its time.
const LENGTH: usize = 8;

/// What a stream is opened for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    /// The path of the stream: `exec`, `attach` or `portforward`.
    pub(super) path: &'static str,
    pub(super) request: StreamRequest,
    /// Whether the pod is one of the simulation.
    pub(super) is_of_simulation: bool,
}

/// The tokens that are not used yet.
#[derive(Default)]
pub(super) struct Tokens(Mutex<BTreeMap<String, (Instant, Ticket)>>);

impl Tokens {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, (Instant, Ticket)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A token for a stream; `None` if too many wait for their clients.
    pub(super) fn issue(&self, ticket: Ticket, rng: &Rng) -> Option<String> {
        let now = Instant::now();
        let mut all = self.all();
        all.retain(|_, (until, _)| *until > now);
        if all.len() >= STREAM_TOKENS {
            return None;
        }
        let bits = rng.next_u64();
        let letter =
            |at: usize| char::from(LETTERS[usize::try_from(bits >> (5 * at) & 31).unwrap_or_default()]);
        let token: String = (0..LENGTH).map(letter).collect();
        all.insert(token.clone(), (now + TOKEN_TIME, ticket));
        Some(token)
    }

    /// What a token was issued for. It counts once.
    pub(super) fn redeem(&self, path: &str, token: &str) -> Option<Ticket> {
        let mut all = self.all();
        // A token at another path stays: it is not that of the client which asks there.
        all.get(token).filter(|(_, ticket)| ticket.path == path)?;
        let (until, ticket) = all.remove(token)?;
        (until > Instant::now()).then_some(ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_client::StreamKind;
    use std::time::Duration;

    fn ticket() -> Ticket {
        let request = StreamRequest {
            node: String::new(),
            namespace: String::new(),
            pod: String::new(),
            uid: String::new(),
            container: String::new(),
            kind: StreamKind::Port(80),
        };
        Ticket { path: "portforward", request, is_of_simulation: false }
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_counts_once_at_its_path_and_for_a_minute() {
        let (tokens, rng) = (Tokens::default(), Rng::seeded(1));
        let token = tokens.issue(ticket(), &rng).unwrap();
        assert_eq!(token.len(), LENGTH);
        assert_eq!(tokens.redeem("exec", &token), None);
        assert_eq!(tokens.redeem("portforward", &token), Some(ticket()));
        assert_eq!(tokens.redeem("portforward", &token), None);
        let late = tokens.issue(ticket(), &rng).unwrap();
        tokio::time::advance(TOKEN_TIME + Duration::from_millis(1)).await;
        assert_eq!(tokens.redeem("portforward", &late), None);
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_are_bounded_and_old_ones_make_room() {
        let (tokens, rng) = (Tokens::default(), Rng::seeded(1));
        for _ in 0..STREAM_TOKENS {
            tokens.issue(ticket(), &rng).unwrap();
        }
        assert_eq!(tokens.issue(ticket(), &rng), None);
        tokio::time::advance(TOKEN_TIME + Duration::from_millis(1)).await;
        assert!(tokens.issue(ticket(), &rng).is_some());
    }
}
