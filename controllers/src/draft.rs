//! [`Draft`]: a pod that is created many times over. Its JSON is made once, and of each answer only the name and the revision are
//! read.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{Metadata, NamespaceResourceScope, Resource};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// Sent, it is a whole pod; received, only its name and revision.
pub(crate) struct Draft {
    json: Option<Box<RawValue>>,
    metadata: ObjectMeta,
}

impl Draft {
    /// A draft of `pod`.
    pub(crate) fn of(pod: &Pod) -> Result<Self, serde_json::Error> {
        let json = serde_json::value::to_raw_value(pod)?;
        Ok(Self { json: Some(json), metadata: ObjectMeta::default() })
    }

    /// The name that the server gave.
    pub(crate) fn into_name(self) -> Option<String> {
        self.metadata.name
    }
}

impl Resource for Draft {
    const API_VERSION: &'static str = Pod::API_VERSION;
    const GROUP: &'static str = Pod::GROUP;
    const KIND: &'static str = Pod::KIND;
    const VERSION: &'static str = Pod::VERSION;
    const URL_PATH_SEGMENT: &'static str = Pod::URL_PATH_SEGMENT;
    type Scope = NamespaceResourceScope;
}

impl Metadata for Draft {
    type Ty = ObjectMeta;
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Serialize for Draft {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Draft {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Answer {
            metadata: Named,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Named {
            name: Option<String>,
            resource_version: Option<String>,
        }
        let Answer { metadata: Named { name, resource_version } } = Answer::deserialize(deserializer)?;
        Ok(Self { json: None, metadata: ObjectMeta { name, resource_version, ..ObjectMeta::default() } })
    }
}
