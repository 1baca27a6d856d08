//! [`RequestedAttributes`]: what an HTTP request asks for, read from its method and URL alone, for decisions that precede routing.

use super::{Attributes, More, Selects, Target};
use crate::percent_encoding::{decode, decode_query};
use crate::resource_location::{ResourceLocation, location};
use http::{Method, Uri};
use kstore_api::selector::{field, label};
use kstore_registry::user::UserInfo;

/// The API verb of a request about a resource, whether or not the method is allowed there.
pub fn resource_verb(method: &Method, named: bool, watch: bool) -> String {
    match *method {
        Method::GET | Method::HEAD if watch => "watch".into(),
        Method::GET | Method::HEAD if named => "get".into(),
        Method::GET | Method::HEAD => "list".into(),
        Method::POST => "create".into(),
        Method::PUT => "update".into(),
        Method::DELETE if !named => "deletecollection".into(),
        ref other => other.as_str().to_ascii_lowercase(),
    }
}

/// The attributes of an HTTP request, whether or not its resource exists.
#[derive(Clone, Debug)]
pub struct RequestedAttributes {
    verb: String,
    version: String,
    path: String,
    location: Option<ResourceLocation>,
    /// The name of the object; of a list or watch, the one that its field selector requires.
    name: String,
    selects: Option<(field::Selector, label::Selector)>,
}

impl RequestedAttributes {
    /// The attributes of a request with this method and URL. Selectors that cannot be parsed select everything: the request is refused
    /// later.
    pub fn of(method: &Method, uri: &Uri) -> Self {
        let path = uri.path().to_owned();
        let Some(location) = location(&path) else {
            let verb = method.as_str().to_ascii_lowercase();
            return Self {
                verb,
                version: String::new(),
                path,
                location: None,
                name: String::new(),
                selects: None,
            };
        };
        // `/api/VERSION/…` or `/apis/GROUP/VERSION/…`
        let mut segments = path.split('/').filter(|segment| !segment.is_empty());
        let version = if segments.next() == Some("api") { segments.next() } else { segments.nth(1) };
        let version = decode(version.unwrap_or_default());
        let parameter = |name: &str| parameter(uri.query(), name);
        let watch = parameter("watch").is_some_and(|text| text != "0" && !text.eq_ignore_ascii_case("false"));
        let named = !location.name.is_empty();
        let verb = resource_verb(method, named, location.watch || watch);
        let selects = matches!(verb.as_str(), "list" | "watch" | "deletecollection").then(|| {
            let fields = field::Selector::parse(&parameter("fieldSelector").unwrap_or_default());
            let labels = label::Selector::parse(&parameter("labelSelector").unwrap_or_default());
            (fields.unwrap_or_default(), labels.unwrap_or_else(|_| label::Selector::everything()))
        });
        let selected = selects.as_ref().and_then(|(fields, _)| fields.required(field::NAME));
        let name = match selected {
            Some(selected) if !named && matches!(verb.as_str(), "list" | "watch") => selected.to_owned(),
            _ => location.name.clone(),
        };
        Self { verb, version, path, location: Some(location), name, selects }
    }

    /// The API verb, or the lower-case HTTP method for a path outside the resource API.
    pub fn verb(&self) -> &str {
        &self.verb
    }

    /// The attributes with this user and verb.
    pub fn attributes<'a>(&'a self, user: &'a UserInfo, verb: &'a str) -> Attributes<'a> {
        let Some(location) = &self.location else {
            return Attributes { user, verb, target: Target::Path(&self.path), more: More::default() };
        };
        let is_namespace = location.group.is_empty() && location.resource == "namespaces";
        let target = Target::Resource {
            group: &location.group,
            resource: &location.resource,
            subresource: &location.subresource,
            // A request about a namespace object is also a request in that namespace.
            namespace: if is_namespace { &location.name } else { &location.namespace },
            name: &self.name,
        };
        let selects = self.selects.as_ref().map(|(fields, labels)| Selects { fields, labels });
        Attributes { user, verb, target, more: More { version: &self.version, selects } }
    }
}

/// The first value of a parameter of a query.
fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    let mut pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find(|(key, _)| decode_query(key) == name).map(|(_, value)| decode_query(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_from_method_and_url() {
        let user = UserInfo::new("ann", [""; 0]);
        for (method, url, expected) in [
            ("GET", "/version?timeout=1s", "get path /version"),
            ("POST", "/api/v1", "post path /api/v1"),
            ("GET", "/api/v1/pods?limit=1", "list  v1 pods  ns= name= selects"),
            (
                "GET",
                "/api/v1/namespaces/a/pods?watch&labelSelector=x%3Dy",
                "watch  v1 pods  ns=a name= selects",
            ),
            ("GET", "/api/v1/watch/pods", "watch  v1 pods  ns= name= selects"),
            (
                "GET",
                "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Db&watch=false",
                "list  v1 pods  ns=a name=b selects",
            ),
            (
                "DELETE",
                "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Db",
                "deletecollection  v1 pods  ns=a name= selects",
            ),
            ("GET", "/api/v1/pods?fieldSelector=%2C%3D&labelSelector=(", "list  v1 pods  ns= name= selects"),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/a/deployments/b/scale",
                "patch apps v1 deployments scale ns=a name=b",
            ),
            ("PUT", "/api/v1/namespaces/a/finalize", "update  v1 namespaces finalize ns=a name=a"),
            ("DELETE", "/apis/none.io/v7/dogs/c%2Fd", "delete none.io v7 dogs  ns= name=c/d"),
        ] {
            let requested = RequestedAttributes::of(&method.parse().unwrap(), &url.parse().unwrap());
            let Attributes { verb, target, more, .. } = requested.attributes(&user, requested.verb());
            let shown = match target {
                Target::Path(path) => format!("{verb} path {path}"),
                Target::Resource { group, resource, subresource, namespace, name } => {
                    let selects = if more.selects.is_some() { " selects" } else { "" };
                    let version = more.version;
                    format!(
                        "{verb} {group} {version} {resource} {subresource} ns={namespace} name={name}{selects}"
                    )
                }
            };
            assert_eq!(shown, expected, "{method} {url}");
        }
    }
}
