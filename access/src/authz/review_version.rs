//! [`ReviewVersion`]: the version of the API in which webhooks for authentication and authorization are called.

/// The API version of the reviews that are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `v1`
    V1,
    /// `v1beta1`, Kubernetes' default.
    #[default]
    V1Beta1,
}

impl ReviewVersion {
    /// Parses the name of a version.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }

    /// The name of the version.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}
