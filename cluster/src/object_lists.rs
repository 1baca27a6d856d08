//! Lists of all objects of a kind at one revision, page by page, as the server has them.

use crate::api_path::escape;
use futures::future::BoxFuture;
use kstore_client::{ApiError, Client};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Objects of one page: about a megabyte of pods.
const PAGE: usize = 500;

/// All objects of a kind.
#[derive(Debug)]
pub struct ObjectList {
    /// The revision of the list.
    pub revision: i64,
    /// The objects; those of built-in kinds without `apiVersion` and `kind`.
    pub items: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Page {
    metadata: PageMeta,
    #[serde(default)]
    items: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    resource_version: String,
    #[serde(default, rename = "continue")]
    token: String,
}

/// Lists the objects at `path`, at a revision or now.
///
/// # Errors
/// The server refuses: 403 without the right to list; 404 if it does not serve the kind; 410 if the revision is not retained.
pub fn list_objects<'a>(
    client: &'a Client,
    path: &'a str,
    at: Option<i64>,
) -> BoxFuture<'a, Result<ObjectList, ApiError>> {
    Box::pin(list(client, path, at))
}

async fn list(client: &Client, path: &str, at: Option<i64>) -> Result<ObjectList, ApiError> {
    let (mut items, mut query) = (Vec::new(), first_page(at));
    loop {
        let answer = client.get_path(&format!("{path}?{query}")).await?;
        let page: Page = serde_json::from_slice(&answer)
            .map_err(|error| ApiError::Json(format!("the answer to {path} is not a list: {error}")))?;
        items.extend(page.items);
        if page.metadata.token.is_empty() {
            let revision = page.metadata.resource_version.parse().unwrap_or_default();
            return Ok(ObjectList { revision, items });
        }
        query = format!("limit={PAGE}&continue={}", escape(&page.metadata.token));
    }
}

fn first_page(at: Option<i64>) -> String {
    match at {
        None => format!("limit={PAGE}"),
        Some(revision) => format!("limit={PAGE}&resourceVersion={revision}&resourceVersionMatch=Exact"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_the_past_is_exact() {
        assert_eq!(first_page(None), "limit=500");
        assert_eq!(first_page(Some(7)), "limit=500&resourceVersion=7&resourceVersionMatch=Exact");
    }
}
