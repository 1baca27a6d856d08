//! The Cluster service of a cluster that always has one member.

use crate::error::{self, EtcdError, unimplemented};
use crate::node::Node;
use kstore_proto::etcd::etcdserverpb::cluster_server::Cluster;
use kstore_proto::etcd::etcdserverpb::{
    Member, MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse, MemberPromoteRequest,
    MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse, MemberUpdateRequest,
    MemberUpdateResponse,
};
use kstore_store::Revision;
use tonic::{Request, Response, Status, async_trait};

/// Error text for a valid membership change, which is impossible.
const ALONE: &str = "kstore is always a cluster of one member";

#[async_trait]
impl Cluster for Node {
    async fn member_list(
        &self,
        _: Request<MemberListRequest>,
    ) -> Result<Response<MemberListResponse>, Status> {
        let member = Member {
            id: self.member,
            name: self.name.to_string(),
            peer_ur_ls: vec![self.url.to_string()],
            client_ur_ls: vec![self.url.to_string()],
            is_learner: false,
        };
        // Responses about the cluster carry no revision.
        Ok(Response::new(MemberListResponse { header: self.header(Revision(0)), members: vec![member] }))
    }

    async fn member_add(
        &self,
        request: Request<MemberAddRequest>,
    ) -> Result<Response<MemberAddResponse>, Status> {
        let urls = request.into_inner().peer_ur_ls;
        if urls.is_empty() || !urls.iter().all(|url| is_peer_url(url)) {
            return Err(error::BAD_MEMBER_URLS.into());
        }
        if urls.iter().any(|url| *url == *self.url) {
            return Err(error::PEER_URLS_EXIST.into());
        }
        Err(unimplemented(ALONE))
    }

    async fn member_remove(
        &self,
        request: Request<MemberRemoveRequest>,
    ) -> Result<Response<MemberRemoveResponse>, Status> {
        self.known(request.into_inner().id)?;
        Err(error::TOO_FEW_MEMBERS.into())
    }

    async fn member_update(
        &self,
        request: Request<MemberUpdateRequest>,
    ) -> Result<Response<MemberUpdateResponse>, Status> {
        self.known(request.into_inner().id)?;
        Err(unimplemented(ALONE))
    }

    async fn member_promote(
        &self,
        request: Request<MemberPromoteRequest>,
    ) -> Result<Response<MemberPromoteResponse>, Status> {
        self.known(request.into_inner().id)?;
        Err(error::NOT_A_LEARNER.into())
    }
}

impl Node {
    fn known(&self, member: u64) -> Result<(), EtcdError> {
        if member == self.member { Ok(()) } else { Err(error::MEMBER_NOT_FOUND) }
    }
}

/// Whether `url` is `http://host:port` or `https://host:port`, without a path.
fn is_peer_url(url: &str) -> bool {
    let url = url.trim();
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    rest.and_then(|rest| rest.rsplit_once(':')).is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}
