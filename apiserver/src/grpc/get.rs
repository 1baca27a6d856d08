//! The gRPC call Get.

use super::{Grpc, target};
use kstore_proto::kstore::v1 as pb;
use kstore_registry::request::{Action, GetOptions};

pub(super) async fn serve(
    grpc: &Grpc,
    request: tonic::Request<pb::GetRequest>,
) -> Result<tonic::Response<pb::Object>, tonic::Status> {
    let caller = grpc.caller(&request).await?;
    let message = request.into_inner();
    let options = GetOptions { exact: message.revision, not_older_than: 0 };
    let target = target(&caller.kinds, message.r#ref)?;
    grpc.object(caller, target, Action::Get(options)).await
}
