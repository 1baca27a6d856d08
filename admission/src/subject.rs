//! [`Subject`]: a request as plugins see it, without its objects.

use kstore_api::admission::Operation;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_registry::undecided::Undecided;
use kstore_registry::user::UserInfo;

/// A request as plugins see it, without its objects.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The user that sent the request.
    pub user: &'a UserInfo,
    /// The operation.
    pub operation: Operation,
    /// The resource.
    pub resource: &'static Resource,
    /// The subresource, or "".
    pub subresource: &'a str,
    /// The namespace, or "".
    pub namespace: &'a str,
    /// The object's name; "" while a name is yet to be generated.
    pub name: &'a str,
    /// Seed of random names that plugins generate; the same for repeated decisions about one request.
    pub seed: u64,
}

impl Subject<'_> {
    /// A 403 with the plugin's text.
    pub(crate) fn forbidden(&self, text: &str) -> Status {
        Status::forbidden(self.resource, self.name, text)
    }

    /// Refuses the request with 403 and the plugin's text.
    pub(crate) fn refuse(&self, text: &str) -> Result<(), Undecided> {
        Err(self.forbidden(text).into())
    }
}
