//! [`Login`]: the link token of the page and the session that it opens. The time is an argument.
//!
//! A browser sends cookies to every port of a host, so another local server gets the session's cookie. Therefore a session has two halves:
//! the cookie, and a key that the page keeps per origin with its port. Either alone opens nothing.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use kstore_nondet::Rng;

/// How long a link works.
const LINK_TIME: SignedDuration = SignedDuration::from_secs(60);
/// How long a session lives without a request.
const IDLE_TIME: SignedDuration = SignedDuration::from_hours(8);
/// How long a session lives.
const SESSION_TIME: SignedDuration = SignedDuration::from_hours(24);
/// Wrong tokens after which logins are refused for [`LINK_TIME`].
const TRIES: u32 = 10;
/// Bytes of randomness of a token, a cookie and a key.
const SECRET_BYTES: usize = 24;

/// The login of one local proxy: at most one link and one session.
#[derive(Debug)]
pub(super) struct Login {
    link: String,
    link_made: Timestamp,
    is_link_used: bool,
    session: Option<Session>,
    wrong: u32,
    wrong_since: Timestamp,
}

#[derive(Debug)]
struct Session {
    cookie: String,
    key: String,
    begun: Timestamp,
    last_used: Timestamp,
}

/// The two halves of a new session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Halves {
    /// Value of the cookie.
    pub cookie: String,
    /// Value of the header `kstore-ui`.
    pub key: String,
}

/// Why a token opens no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LoginError {
    /// It is not the token of the link.
    #[error("this link is not known: start kstore-server ui again")]
    Unknown,
    /// Its minute is over.
    #[error("this link is older than a minute: start kstore-server ui again")]
    Late,
    /// It was used before. The session that it opened has ended.
    #[error(
        "this link was used before, perhaps by another program; the session that it opened has ended: start kstore-server ui again"
    )]
    Used,
    /// There were too many wrong tokens.
    #[error("too many wrong links: wait a minute")]
    TooMany,
}

impl Login {
    /// A login with a new link.
    pub(super) fn new(rng: &Rng, now: Timestamp) -> Self {
        Self {
            link: secret(rng),
            link_made: now,
            is_link_used: false,
            session: None,
            wrong: 0,
            wrong_since: now,
        }
    }

    /// The token of the link.
    pub(super) fn token(&self) -> &str {
        &self.link
    }

    /// Makes a new link, whose token opens a session in place of the present one.
    pub(super) fn renew(&mut self, rng: &Rng, now: Timestamp) {
        (self.link, self.link_made, self.is_link_used) = (secret(rng), now, false);
    }

    /// Exchanges the token for a session. A second use within its minute ends the session of the first.
    ///
    /// # Errors
    /// The token is wrong, late or used.
    pub(super) fn open(&mut self, token: &str, rng: &Rng, now: Timestamp) -> Result<Halves, LoginError> {
        if now.duration_since(self.wrong_since) > LINK_TIME {
            (self.wrong, self.wrong_since) = (0, now);
        }
        if self.wrong >= TRIES {
            return Err(LoginError::TooMany);
        }
        if !is_same(token, &self.link) {
            self.wrong += 1;
            return Err(LoginError::Unknown);
        }
        match (now.duration_since(self.link_made) > LINK_TIME, self.is_link_used) {
            (true, _) => Err(LoginError::Late),
            (false, true) => {
                self.session = None;
                Err(LoginError::Used)
            }
            (false, false) => {
                self.is_link_used = true;
                let halves = Halves { cookie: secret(rng), key: secret(rng) };
                let Halves { cookie, key } = halves.clone();
                self.session = Some(Session { cookie, key, begun: now, last_used: now });
                Ok(halves)
            }
        }
    }

    /// Whether these are both halves of the session, which has not ended.
    pub(super) fn admits(&mut self, cookie: &str, key: &str, now: Timestamp) -> bool {
        let Some(session) = &mut self.session else { return false };
        let has_both = is_same(cookie, &session.cookie) & is_same(key, &session.key);
        let is_over = now.duration_since(session.begun) > SESSION_TIME
            || now.duration_since(session.last_used) > IDLE_TIME;
        if has_both && !is_over {
            session.last_used = now;
        }
        has_both && !is_over
    }

    /// Ends the session.
    pub(super) fn close(&mut self) {
        self.session = None;
    }
}

fn secret(rng: &Rng) -> String {
    let mut bytes = [0; SECRET_BYTES];
    rng.fill_secret(&mut bytes);
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// Compares secrets in a time that does not depend on where they differ.
fn is_same(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |found, (a, b)| found | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn login() -> (Login, Rng, String) {
        let rng = Rng::seeded(1);
        let login = Login::new(&rng, at(0));
        let token = login.token().to_owned();
        (login, rng, token)
    }

    #[test]
    fn a_link_opens_one_session_within_its_minute() {
        let (mut login, rng, token) = login();
        assert_eq!(login.open("wrong", &rng, at(1)), Err(LoginError::Unknown));
        let halves = login.open(&token, &rng, at(2)).unwrap();
        assert!(login.admits(&halves.cookie, &halves.key, at(3)));
        assert_eq!(login.open(&token, &rng, at(4)), Err(LoginError::Used));
        assert!(!login.admits(&halves.cookie, &halves.key, at(5)), "the second use ended the session");
    }

    #[test]
    fn a_new_link_replaces_the_session_only_when_it_is_used() {
        let (mut login, rng, old) = login();
        let first = login.open(&old, &rng, at(1)).unwrap();
        login.renew(&rng, at(500));
        let new = login.token().to_owned();
        assert!(new != old && login.admits(&first.cookie, &first.key, at(501)));
        assert_eq!(login.open(&old, &rng, at(502)), Err(LoginError::Unknown));
        let second = login.open(&new, &rng, at(503)).unwrap();
        assert!(login.admits(&second.cookie, &second.key, at(504)));
        assert!(!login.admits(&first.cookie, &first.key, at(504)));
    }

    #[test]
    fn a_late_link_opens_nothing_and_ends_nothing() {
        let (mut late, rng, token) = login();
        assert_eq!(late.open(&token, &rng, at(61)), Err(LoginError::Late));
        let (mut login, rng, token) = login();
        let halves = login.open(&token, &rng, at(1)).unwrap();
        assert_eq!(login.open(&token, &rng, at(62)), Err(LoginError::Late));
        assert!(login.admits(&halves.cookie, &halves.key, at(63)));
    }

    #[test]
    fn either_half_alone_and_both_after_the_end_open_nothing() {
        let (mut login, rng, token) = login();
        let Halves { cookie, key } = login.open(&token, &rng, at(1)).unwrap();
        for (cookie, key) in [(&*cookie, ""), ("", &*key), (&*key, &*cookie), (&*cookie, &*cookie)] {
            assert!(!login.admits(cookie, key, at(2)), "{cookie} {key}");
        }
        assert!(login.admits(&cookie, &key, at(8 * 3600)));
        assert!(!login.admits(&cookie, &key, at(16 * 3600 + 1)), "eight idle hours");
        let (mut used, ..) = (login, ());
        assert!(!used.admits(&cookie, &key, at(25 * 3600)));
        used.close();
        assert!(!used.admits(&cookie, &key, at(3)));
    }

    #[test]
    fn wrong_links_are_counted_for_a_minute() {
        let (mut login, rng, token) = login();
        for _ in 0..TRIES {
            assert_eq!(login.open("x", &rng, at(1)), Err(LoginError::Unknown));
        }
        assert_eq!(login.open(&token, &rng, at(2)), Err(LoginError::TooMany));
        assert_eq!(login.open("x", &rng, at(70)), Err(LoginError::Unknown));
    }
}
