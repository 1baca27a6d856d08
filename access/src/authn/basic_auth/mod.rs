//! [`BasicAuth`]: users with passwords (HTTP Basic, RFC 7617), as kube-apiserver had them until 1.18. Hashes
//! of the passwords are in a file: `file` reads it, `hash` verifies passwords, `credentials` decodes the
//! header.

mod credentials;
mod file;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod hash;

use crate::expiring::Expiring;
use crate::reloaded::{Reloaded, UnusableFiles};
pub(crate) use credentials::{BasicCredentials, MalformedCredentials, of_headers};
use file::{BasicAuthFile, Digest};
pub use file::{BasicAuthFileError, BasicAuthLine, BasicAuthLineError};
pub use hash::HashError;
use kstore_api::status::Status;
use kstore_metrics_text::Page;
use kstore_nondet::Nondet;
use kstore_registry::user::UserInfo;
use kstore_storage::limits::{
    ACCESS_FILE_LOOK, BASIC_AUTH_CHECKS, BASIC_AUTH_VERIFIED, BASIC_AUTH_VERIFIED_TIME, BASIC_AUTH_WAITING,
};
use kstore_storage::series::{Counter, Family};
use ring::hmac;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The challenge of a 401, as kube-apiserver's was.
pub const CHALLENGE: &str = "Basic realm=\"kubernetes-master\"";

/// Authenticates users by passwords.
pub struct BasicAuth {
    users: Reloaded<Users>,
    /// Keys the digests of credentials, so that nothing in memory tells passwords apart from random bytes.
    key: hmac::Key,
    /// Checks that run or wait for [`Self::running`].
    pending: Semaphore,
    running: Arc<Semaphore>,
    results: Family<&'static str, Counter>,
}

/// The users of one state of the file, with the credentials that were verified by it.
struct Users {
    file: Arc<BasicAuthFile>,
    verified: Expiring<Digest, Arc<UserInfo>>,
}

impl fmt::Debug for BasicAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BasicAuth").field("users", &self.users).finish_non_exhaustive()
    }
}

impl BasicAuth {
    /// Reads the users of a file, and follows its changes: a user whose line is removed or changed is refused
    /// at the next look at the file, although the password was verified before.
    ///
    /// # Errors
    /// The file cannot be read, or has a malformed line.
    pub fn of_file(file: PathBuf, nondet: &Nondet) -> Result<Self, UnusableFiles> {
        let users = |contents: &[String], _: Option<&Users>| {
            let file = BasicAuthFile::parse(&contents.concat());
            let file = file.map_err(|error| UnusableFiles::new(error.to_string()))?;
            Ok(Users { file: Arc::new(file), verified: Expiring::new(BASIC_AUTH_VERIFIED) })
        };
        let users = Reloaded::new(vec![file], users)?.at_most_every(ACCESS_FILE_LOOK).timed(nondet.clock);
        let mut key = [0; 32];
        nondet.rng.fill_secret(&mut key);
        Ok(Self {
            users,
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            pending: Semaphore::new(BASIC_AUTH_WAITING),
            running: Arc::new(Semaphore::new(BASIC_AUTH_CHECKS)),
            results: Family::new(Counter::default),
        })
    }

    /// Authenticates the sender of credentials.
    ///
    /// # Errors
    /// 401 if the user or the password is wrong; 429 if too many passwords are being checked.
    pub(crate) async fn user(&self, given: BasicCredentials) -> Result<Arc<UserInfo>, Status> {
        let (result, user) = self.identify(given).await;
        self.results.get(&result).add(1);
        user
    }

    /// The user, with the name of the result in metrics.
    async fn identify(&self, given: BasicCredentials) -> (&'static str, Result<Arc<UserInfo>, Status>) {
        let users = self.users.get();
        let digest = self.digest(&given);
        if let Some(user) = users.verified.get(&digest) {
            return ("cached", Ok(user));
        }
        let Ok(_pending) = self.pending.try_acquire() else {
            return ("busy", Err(Status::too_many_requests("too many passwords are being checked", 1)));
        };
        let running = self.running.clone().acquire_owned().await.expect("the semaphore is never closed");
        // A concurrent request may have verified the credentials while this one waited.
        if let Some(user) = users.verified.get(&digest) {
            return ("cached", Ok(user));
        }
        let (file, choice) = (users.file.clone(), self.digest_of(&[given.user.as_bytes()]));
        // The permit moves along: a check goes on after its request was cancelled, and counts until it ends.
        let check = tokio::task::spawn_blocking(move || {
            let _running = running;
            file.verify(&given.user, given.password.as_bytes(), choice)
        });
        match check.await {
            Ok(Some(user)) => {
                users.verified.put(digest, user.clone(), BASIC_AUTH_VERIFIED_TIME);
                ("success", Ok(user))
            }
            Ok(None) => ("failure", Err(Status::unauthorized())),
            Err(_) => ("failure", Err(Status::internal("the check of a password failed"))),
        }
    }

    fn digest(&self, given: &BasicCredentials) -> Digest {
        self.digest_of(&[given.user.as_bytes(), given.password.as_bytes()])
    }

    /// The keyed digest of texts, each with its length, so that no two sequences have the same.
    fn digest_of(&self, texts: &[&[u8]]) -> Digest {
        let mut context = hmac::Context::with_key(&self.key);
        for text in texts {
            context.update(&(text.len() as u64).to_le_bytes());
            context.update(text);
        }
        context.sign().as_ref().try_into().expect("HMAC-SHA256 has 32 bytes")
    }

    /// Writes the metrics.
    pub fn render_metrics(&self, page: &mut Page<'_>) {
        let name = "kstore_basic_auth_requests_total";
        page.head(name, "counter", "Requests with a user name and a password.");
        for (result, counter) in self.results.sorted() {
            page.line(name, &[("result", result)], counter.get());
        }
    }
}

#[cfg(test)]
mod tests;
