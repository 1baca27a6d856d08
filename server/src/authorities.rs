//! Publishes the authorities of client certificates again when their files have changed, for extension API servers: the ConfigMap
//! `kube-system/extension-apiserver-authentication`. A change is noticed at the next TLS handshake, like the new authorities.

use crate::tls::{Authorities, ClientAuthorities};
use kstore_apiserver::ApiServer;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Pause before the next attempt after the storage refused the ConfigMap.
const RETRY: Duration = Duration::from_secs(5);

/// The authorities of client certificates that a server publishes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientCa {
    /// PEM of the authorities of users at the start, if any.
    pub pem: Option<String>,
    /// Authorities that follow their files, if they are of files.
    pub followed: Option<FollowedAuthorities>,
}

/// The authorities in use, by the flags whose files have them.
#[derive(Clone, Debug)]
pub(crate) struct FollowedAuthorities {
    /// The authorities of handshakes.
    pub authorities: Arc<ClientAuthorities>,
    /// The authorities that the start publishes.
    pub published: Arc<Authorities>,
    /// Whether the first file has authorities of users (`--client-ca-file`).
    pub has_users: bool,
    /// Whether the last file has authorities of front proxies (`--requestheader-client-ca-file`).
    pub has_proxies: bool,
}

/// The PEM of the authorities of users, and of front proxies, among those of all files.
fn by_flag(pems: &[String], has_users: bool, has_proxies: bool) -> (Option<String>, Option<String>) {
    (pems.first().filter(|_| has_users).cloned(), pems.last().filter(|_| has_proxies).cloned())
}

/// Publishes each change until `stop` is cancelled. What the storage refuses is tried again.
pub(crate) async fn publish_changes(api: ApiServer, followed: FollowedAuthorities, stop: CancellationToken) {
    let FollowedAuthorities { authorities, mut published, has_users, has_proxies } = followed;
    let follow = async {
        loop {
            let next = authorities.changed_since(&published).await;
            let (users, proxies) = by_flag(&next.pems, has_users, has_proxies);
            match api.publish_authorities(users, proxies).await {
                Ok(()) => published = next,
                Err(status) => {
                    tracing::warn!(error = %status.message, "cannot publish changed certificate authorities");
                    sleep(RETRY).await;
                }
            }
        }
    };
    stop.run_until_cancelled(follow).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_users_and_proxies_are_told_apart() {
        let pem = |text: &str| Some(text.to_owned());
        let both = ["u".to_owned(), "p".to_owned()];
        assert_eq!(by_flag(&both, true, true), (pem("u"), pem("p")));
        assert_eq!(by_flag(&both[..1], true, false), (pem("u"), None));
        assert_eq!(by_flag(&both[1..], false, true), (None, pem("p")));
    }
}
