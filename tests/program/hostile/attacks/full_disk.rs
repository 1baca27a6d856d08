//! A storage that is full when the program starts: clients go on to write, and others need to read and to delete.

use super::requests::repeat;
use super::target::{Target, Writer};
use super::{Attack, Data, Scale};
use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use kstore_tests::manifests;

/// Writes that a full storage refuses. The program once did not start on it, so that nobody could delete anything.
pub(super) const WRITES: Attack = Attack::new("full disk", 128, writes).with_data(Data::Full);

fn writes(target: &Target, scale: Scale) -> LocalBoxFuture<'_, usize> {
    async move {
        let eve = target.former.as_ref().expect("the cluster has a user");
        let (path, kept) = (eve.path("configmaps"), eve.path("configmaps/kept"));
        let object = manifests::config_map("more", &"x".repeat(100 << 10)).to_string();
        assert_eq!(eve.send(("GET", &kept), "application/json", "").await, 200);
        assert_eq!(eve.send(("POST", &path), "application/json", &object).await, 507);
        target.begin(Writer::Deleter).await;
        let requests = repeat(eve, scale, 8, (&path, "application/json"), &object).await;
        assert_eq!(eve.send(("DELETE", &kept), "application/json", "").await, 200);
        assert_eq!(eve.send(("GET", &kept), "application/json", "").await, 404);
        requests * object.len()
    }
    .boxed_local()
}
