//! The finalizers of Kubernetes objects, for [`kstore_informer::finalizer::finalize`].

use crate::typed::{Kind, Obj, revision_of};
use crate::{Api, ApiError, Patch};
use kstore_informer::finalizer::{Edit, Finalizers};
use kstore_informer::{Object, Revision};
use serde_json::{Value, json};

const LIST: &str = "/metadata/finalizers";

impl<K: Kind> Finalizers for Api<K> {
    type Obj = Obj<K>;
    type Error = ApiError;

    fn list(object: &Obj<K>) -> impl Iterator<Item = &str> {
        object.metadata().finalizers.iter().flatten().map(String::as_str)
    }

    fn is_deleting(object: &Obj<K>) -> bool {
        object.metadata().deletion_timestamp.is_some()
    }

    async fn edit(&self, object: &Obj<K>, edit: Edit<'_>) -> Result<Revision, ApiError> {
        let (patch, key) = (patch(object, edit), object.key());
        let written = self.patch(key.namespace(), key.name(), &Patch::Json(patch)).await?;
        Ok(revision_of(&written))
    }
}

/// The JSON patch for an edit of the finalizers. A JSON patch cannot test that a list is absent, so the patch
/// adds the first entry only if the object is unchanged.
fn patch<T: Object>(object: &T, edit: Edit<'_>) -> Value {
    let test = |path: &str, value: &str| json!({"op": "test", "path": path, "value": value});
    let uid = test("/metadata/uid", object.uid());
    match edit {
        Edit::Add { name, first: true } => {
            let unchanged = test("/metadata/resourceVersion", &object.revision().to_string());
            json!([uid, unchanged, {"op": "add", "path": LIST, "value": [name]}])
        }
        Edit::Add { name, first: false } => {
            json!([uid, {"op": "add", "path": format!("{LIST}/-"), "value": name}])
        }
        Edit::Remove { name, at } => {
            let path = format!("{LIST}/{at}");
            json!([uid, test(&path, name), {"op": "remove", "path": path}])
        }
    }
}
