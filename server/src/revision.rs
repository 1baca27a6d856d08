//! Revisions as commands take them: `244`, `5m`, `now~2`, `244..313`. The server resolves all but numbers.

use anyhow::{Context as _, anyhow};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use kstore_api::revision_expression::{Moment, RevisionExpression, RevisionRange};
use kstore_client::{ApiError, Client};
use kstore_cluster::escape;
use kstore_nondet::Nondet;
use serde::Deserialize;

/// The object whose outside writes `X~N` counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SelectedObject<'o> {
    /// Plural, followed by the group if there is one.
    pub(crate) resource: &'o str,
    /// Empty for kinds without namespaces.
    pub(crate) namespace: &'o str,
    pub(crate) name: &'o str,
}

#[derive(Deserialize)]
struct Resolved {
    revision: i64,
    time: Option<Timestamp>,
}

/// Checks the form of an expression.
///
/// # Errors
/// It has none of the forms.
pub(crate) fn expression(text: &str) -> anyhow::Result<RevisionExpression> {
    Ok(RevisionExpression::parse(text)?)
}

/// The revision that a text names at the server; `selected` is what `X~N` is about. A number is not checked: the read of its state is.
///
/// # Errors
/// The text has none of the forms, or the server knows no such state.
pub(crate) async fn resolve(
    client: &Client,
    text: &str,
    selected: Option<SelectedObject<'_>>,
) -> anyhow::Result<i64> {
    resolve_with(client, text, selected, &[]).await
}

/// As [`resolve`]. To a user who may not ask the server for `now`, a list of one of these collections says it.
///
/// # Errors
/// As of [`resolve`].
pub(crate) async fn resolve_with(
    client: &Client,
    text: &str,
    selected: Option<SelectedObject<'_>>,
    collections: &[String],
) -> anyhow::Result<i64> {
    let expression = expression(text)?;
    if let RevisionExpression { moment: Moment::Revision(revision), back: 0 } = expression {
        return Ok(revision);
    }
    let answer = client.get_path(&query(text, zone(), selected)).await;
    let is_now = matches!(expression, RevisionExpression { moment: Moment::Now, back: 0 });
    if is_now && answer.as_ref().is_err_and(ApiError::is_forbidden) {
        for collection in collections {
            if let Some(revision) = newest_in(client, collection).await {
                return Ok(revision);
            }
        }
    }
    let answer = answer.map_err(|error| anyhow!("{error}")).with_context(|| format!("revision {text:?}"))?;
    let resolved: Resolved =
        serde_json::from_slice(&answer).context("the server's answer is not a revision")?;
    Ok(resolved.revision)
}

/// The revision of a list; `None` if the user may not read it.
async fn newest_in(client: &Client, collection: &str) -> Option<i64> {
    let answer = client.get_path(&format!("{collection}?limit=1")).await.ok()?;
    let list: serde_json::Value = serde_json::from_slice(&answer).ok()?;
    list["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

/// Paths of collections, in a namespace and then in all. Most users may list one of them, and each list has the newest revision.
pub(crate) fn common_collections(namespace: &str) -> Vec<String> {
    let kinds = ["configmaps", "pods", "services", "persistentvolumeclaims"];
    let inside = kinds.map(|kind| format!("/api/v1/namespaces/{}/{kind}", escape(namespace)));
    let all = ["configmaps", "pods", "namespaces", "nodes"].map(|kind| format!("/api/v1/{kind}"));
    inside.into_iter().chain(all).collect()
}

/// The revision that a text names at the server, which has its state, and its time, if the server knows it.
///
/// # Errors
/// The text has none of the forms, or the server knows no such state.
pub(crate) async fn retained(client: &Client, text: &str) -> anyhow::Result<(i64, Option<Timestamp>)> {
    expression(text)?;
    let answer = client.get_path(&query(text, zone(), None)).await;
    let answer = answer.map_err(|error| anyhow!("{error}")).with_context(|| format!("revision {text:?}"))?;
    let Resolved { revision, time } =
        serde_json::from_slice(&answer).context("the server's answer is not a revision")?;
    Ok((revision, time))
}

/// Resolves `A..B` at the server to two revisions. A text without `..` gives its revision twice; a side may be missing. `collections`
/// are those of [`resolve_with`].
///
/// # Errors
/// As of [`resolve`]; or the first revision is later than the second one.
pub(crate) async fn resolve_range(
    client: &Client,
    text: &str,
    collections: &[String],
) -> anyhow::Result<(i64, i64)> {
    let Some(range) = RevisionRange::parse(text) else {
        let revision = resolve_with(client, text, None, collections).await?;
        return Ok((revision, revision));
    };
    range?;
    let (after, upto) = text.split_once("..").unwrap_or((text, ""));
    let after = resolve(client, if after.is_empty() { "oldest" } else { after }, None).await?;
    let upto = if upto.is_empty() { "now" } else { upto };
    let upto = resolve_with(client, upto, None, collections).await?;
    if after > upto {
        return Err(anyhow!("{text:?} goes back: {after} is later than {upto}"));
    }
    Ok((after, upto))
}

/// The time of a revision; `None` if the server does not say it.
pub(crate) async fn time_of(client: &Client, revision: i64) -> Option<Timestamp> {
    let answer = client.get_path(&query(&revision.to_string(), 0, None)).await.ok()?;
    serde_json::from_slice::<Resolved>(&answer).ok()?.time
}

/// Distance of this machine's zone from UTC, in seconds.
fn zone() -> i32 {
    TimeZone::system().to_offset(Nondet::real().clock.now()).seconds()
}

fn query(text: &str, zone: i32, selected: Option<SelectedObject<'_>>) -> String {
    let mut path = format!("/kstore/v1/resolve?text={}&zone={zone}", escape(text));
    if let Some(SelectedObject { resource, namespace, name }) = selected {
        path.push_str(&format!("&resource={}&name={}", escape(resource), escape(name)));
        if !namespace.is_empty() {
            path.push_str(&format!("&namespace={}", escape(namespace)));
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_asked_with_the_zone_and_the_object() {
        assert_eq!(query("#2~1", 3600, None), "/kstore/v1/resolve?text=%232%7E1&zone=3600");
        let selected = SelectedObject { resource: "deployments.apps", namespace: "shop", name: "web" };
        assert_eq!(
            query("now~2", 0, Some(selected)),
            "/kstore/v1/resolve?text=now%7E2&zone=0&resource=deployments.apps&name=web&namespace=shop"
        );
        assert!(expression("Yesterday").unwrap_err().to_string().contains("is no revision"));
    }
}
