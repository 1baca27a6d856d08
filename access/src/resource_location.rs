//! [`ResourceLocation`]: the place in the resource tree that a request is about, as authorization, audit and aggregated API servers see
//! it. Pure. Whether the resource is served is not known here: see `rest::router`.

use crate::percent_encoding::decode;

/// A location in the resource tree, whether or not the resource exists: the target of authorization.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceLocation {
    /// The API group.
    pub group: String,
    /// The plural.
    pub resource: String,
    /// The subresource, or "".
    pub subresource: String,
    /// The namespace, or "".
    pub namespace: String,
    /// The object's name, or "".
    pub name: String,
    /// Whether the path has the deprecated `/watch/` form.
    pub watch: bool,
}

/// The location that a path names, whether or not the resource exists; `None` if it is not a resource path.
pub fn location(path: &str) -> Option<ResourceLocation> {
    let segments: Vec<String> = path.split('/').filter(|s| !s.is_empty()).map(decode).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match segments.as_slice() {
        ["api", _, rest @ ..] => Some(PathRemainder::read(rest)?.location("")),
        ["apis", group, _, rest @ ..] => Some(PathRemainder::read(rest)?.location(group)),
        _ => None,
    }
}

/// The part of a resource path after its version.
pub struct PathRemainder<'a> {
    /// Whether the path begins with `watch/`, the old form of a watch.
    pub watch: bool,
    /// The namespace, or "".
    pub namespace: &'a str,
    /// The plural of the resource.
    pub plural: &'a str,
    /// The name of the object, or "".
    pub name: &'a str,
    /// What follows the name, joined by `/`, or "".
    pub subresource: String,
}

impl<'a> PathRemainder<'a> {
    /// Parses the segments; `None` if they name no resource.
    pub fn read(rest: &[&'a str]) -> Option<Self> {
        let (watch, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            _ => (false, rest),
        };
        let (namespace, rest) = match rest {
            // `namespaces/x/status` and `/finalize` are subresources of the namespace itself.
            ["namespaces", _, "status" | "finalize"] => ("", rest),
            ["namespaces", namespace, _, ..] => (*namespace, &rest[2..]),
            _ => ("", rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, "", String::new()),
            [plural, name] => (*plural, *name, String::new()),
            [plural, name, subresource @ ..] => (*plural, *name, subresource.join("/")),
            [] => return None,
        };
        Some(Self { watch, namespace, plural, name, subresource })
    }

    /// The location in this API group.
    pub fn location(self, group: &str) -> ResourceLocation {
        ResourceLocation {
            group: group.to_owned(),
            resource: self.plural.to_owned(),
            subresource: self.subresource,
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
            watch: self.watch,
        }
    }
}
