//! The version of the API server whose clients run in this process, by its `/version`: controllers, scheduler and nodes then have the rules
//! and feature gates of that version.

use kstore_api::version::{MAJOR, Minor};
use kstore_client::{Client, ServerVersion};

/// The version of Kubernetes that the API server serves. A server that does not say it, or that serves a version without a table here, gets
/// the nearest version, and the log says so.
pub(crate) async fn served(client: &Client) -> Minor {
    let stated = match client.server_version().await {
        Ok(stated) => stated,
        Err(error) => {
            let assumed = Minor::DEFAULT;
            tracing::warn!(%error, "the API server does not say its version: {assumed} is assumed");
            return assumed;
        }
    };
    let nearest = nearest(&stated);
    if !stated_is(&stated, nearest) {
        let ServerVersion { major, minor } = stated;
        tracing::warn!(
            "components for Kubernetes {nearest} work for an API server that serves {major}.{minor}, which kstore does not have"
        );
    }
    nearest
}

/// The number of the minor version; vendors append `+`.
fn number(stated: &ServerVersion) -> Option<u64> {
    let is_known = stated.major.parse() == Ok(MAJOR);
    stated.minor.trim_end_matches('+').parse().ok().filter(|_| is_known)
}

fn stated_is(stated: &ServerVersion, minor: Minor) -> bool {
    number(stated) == Some(minor.number())
}

/// The version of the table that is nearest to a stated one.
fn nearest(stated: &ServerVersion) -> Minor {
    let Some(number) = number(stated) else { return Minor::DEFAULT };
    let not_newer = Minor::SERVED.into_iter().rev().find(|minor| minor.number() <= number);
    not_newer.unwrap_or(Minor::SERVED[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_version_gets_the_nearest_one() {
        for (major, minor, expected, is_exact) in [
            ("1", "34", Minor::V34, true),
            ("1", "36+", Minor::V36, true),
            ("1", "21", Minor::V33, false),
            ("1", "99", Minor::V37, false),
            ("2", "34", Minor::DEFAULT, false),
            ("", "", Minor::DEFAULT, false),
        ] {
            let stated = ServerVersion { major: major.to_owned(), minor: minor.to_owned() };
            let found = nearest(&stated);
            assert_eq!((found, stated_is(&stated, found)), (expected, is_exact), "{major}.{minor}");
        }
    }
}
