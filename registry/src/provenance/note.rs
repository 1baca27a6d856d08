//! [`Note`]: the author, program, time and causes of a commit, stored with it. The written objects are in the
//! commit itself.

use crate::request::{Request, Transaction};
use bytes::Bytes;
use kstore_nondet::Clock;

/// The first byte of an encoded note.
const VERSION: u8 = 1;

/// The provenance of a revision. It is stored as bincode after a version byte.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Note {
    /// The name of the user.
    pub user: String,
    /// The program or component: the `User-Agent`.
    pub agent: String,
    /// The API verb, with the subresource after a slash: `update/status`.
    pub verb: String,
    /// The revisions that led to this write.
    pub causes: Vec<i64>,
    /// The time of the write, in microseconds since 1970.
    pub time_us: i64,
}

impl Note {
    /// The note of a request that is about to write.
    pub fn of(request: &Request, clock: &Clock) -> Self {
        let verb = match request.target.subresource {
            "" => request.action.verb().to_owned(),
            subresource => format!("{}/{subresource}", request.action.verb()),
        };
        Self {
            user: request.user.username.clone(),
            agent: request.agent.clone(),
            verb,
            causes: request.causes.clone(),
            time_us: clock.now().as_microsecond(),
        }
    }

    /// The note of a transaction: one for all of its writes.
    pub fn of_transaction(transaction: &Transaction, clock: &Clock) -> Self {
        Self {
            user: transaction.user.username.clone(),
            agent: transaction.agent.clone(),
            verb: "transact".to_owned(),
            causes: transaction.causes.clone(),
            time_us: clock.now().as_microsecond(),
        }
    }

    /// Encodes the note for storage.
    pub fn encode(&self) -> Bytes {
        let mut bytes = vec![VERSION];
        let config = bincode::config::standard();
        bincode::encode_into_std_write(self, &mut bytes, config).expect("encoding into memory does not fail");
        bytes.into()
    }

    /// Decodes a stored note; `None` if it is of another version or damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&VERSION, rest) = bytes.split_first()? else { return None };
        bincode::decode_from_slice(rest, bincode::config::standard()).ok().map(|(note, _)| note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_round_trip_and_garbage_is_refused() {
        let text = |s: &str| s.to_owned();
        let causes = vec![1, 1 << 40];
        let note = Note { user: text("u"), agent: text("a"), verb: text("create"), causes, time_us: 0 };
        assert_eq!(Note::decode(&note.encode()), Some(note));
        assert_eq!(Note::decode(b""), None);
        assert_eq!(Note::decode(&[9, 1, 2]), None);
    }
}
