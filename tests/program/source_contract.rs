//! The source contract for kstore's gRPC API over a socket. `source_contract` of the binary `sim` has the sources in
//! process.

use crate::SERVER;
use k8s_openapi::api::core::v1::ConfigMap;
use kstore_client::{Obj, Source};
use kstore_informer::source_contract;
use kstore_tests::{ConfigMapSourceFixture, Launch};

mod grpc_over_a_socket {
    use super::*;

    type Fixture = ConfigMapSourceFixture<Source<Obj<ConfigMap>>>;

    async fn world() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let apiserver_alone = ["--components", "apiserver"];
        let server = Launch::in_memory(SERVER, folder.path()).args(&apiserver_alone).start().unwrap();
        Fixture::of_program(Fixture::alone, server, folder).await
    }

    source_contract!(
        #[tokio::test]
        world
    );
}
