//! [`AnonymousAccess`]: which requests without credentials are served. Pure.

use std::sync::Arc;

/// Which requests without credentials are served as the user `system:anonymous`; others are refused with 401.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnonymousAccess {
    /// All requests.
    Everywhere,
    /// Requests for exactly these paths, such as `/livez`.
    Paths(Arc<[String]>),
    /// No request.
    Nowhere,
}

impl AnonymousAccess {
    /// Whether a request for this path is served.
    pub fn serves(&self, path: &str) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Paths(paths) => paths.iter().any(|served| served == path),
            Self::Nowhere => false,
        }
    }
}

impl From<bool> for AnonymousAccess {
    fn from(is_served: bool) -> Self {
        if is_served { Self::Everywhere } else { Self::Nowhere }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_requests_are_served_at_exactly_the_configured_paths() {
        let paths = AnonymousAccess::Paths(["/livez".to_owned(), "/api/v1/pods".to_owned()].into());
        for (access, path, expected) in [
            (AnonymousAccess::from(true), "/api", true),
            (AnonymousAccess::from(false), "/livez", false),
            (paths.clone(), "/livez", true),
            (paths.clone(), "/api/v1/pods", true),
            (paths.clone(), "/livez/", false),
            (paths.clone(), "/livez/ping", false),
            (paths.clone(), "/Livez", false),
            (paths.clone(), "/readyz", false),
            (paths, "", false),
            (AnonymousAccess::Paths([].into()), "/livez", false),
        ] {
            assert_eq!(access.serves(path), expected, "{access:?} {path:?}");
        }
    }
}
