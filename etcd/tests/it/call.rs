//! A unary call as a value, and its response as text. Values that differ between two servers are replaced: ids, terms,
//! sizes, and fields that etcd 3.5 does not have.

use kstore_proto::etcd::authpb::Permission;
use kstore_proto::etcd::etcdserverpb::auth_client::AuthClient;
use kstore_proto::etcd::etcdserverpb::cluster_client::ClusterClient;
use kstore_proto::etcd::etcdserverpb::kv_client::KvClient;
use kstore_proto::etcd::etcdserverpb::lease_client::LeaseClient;
use kstore_proto::etcd::etcdserverpb::maintenance_client::MaintenanceClient;
use kstore_proto::etcd::etcdserverpb::{self as pb};
use std::fmt::Debug;
use tonic::Status;
use tonic::transport::Channel;

/// A unary call with its request.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Range(pb::RangeRequest),
    Put(pb::PutRequest),
    Delete(pb::DeleteRangeRequest),
    Txn(pb::TxnRequest),
    Compact(pb::CompactionRequest),
    Grant(pb::LeaseGrantRequest),
    Revoke(pb::LeaseRevokeRequest),
    TimeToLive(pb::LeaseTimeToLiveRequest),
    Leases,
    HashKv(i64),
    Alarm(pb::AlarmRequest),
    Defragment,
    MoveLeader(u64),
    Downgrade(pb::DowngradeRequest),
    MemberList,
    MemberAdd(Vec<String>),
    MemberRemove(u64),
    MemberPromote(u64),
    AuthEnable,
    AuthDisable,
    AuthStatus,
    Authenticate,
    UserAdd(&'static str),
    UserGet,
    UserList,
    UserDelete,
    UserChangePassword,
    UserGrantRole,
    UserRevokeRole,
    RoleAdd(&'static str),
    RoleGet,
    RoleList,
    RoleDelete,
    RoleGrant(Option<(&'static str, &'static str)>),
    RoleRevoke,
}

/// Replaces a header's ids and term, which each server chooses; keeps whether they are set.
fn level(header: &mut Option<pb::ResponseHeader>) {
    if let Some(header) = header {
        header.cluster_id = (header.cluster_id != 0).into();
        header.member_id = (header.member_id != 0).into();
        header.raft_term = (header.raft_term != 0).into();
    }
}

macro_rules! shown {
    ($answer:expr) => {
        shown!($answer, |_| ())
    };
    ($answer:expr, $level:expr) => {
        match $answer {
            Ok(response) => {
                let mut response = response.into_inner();
                level(&mut response.header);
                apply(&mut response, $level);
                format!("{response:?}")
            }
            Err(status) => refused(&status),
        }
    };
}

fn apply<T: Debug>(response: &mut T, level: impl FnOnce(&mut T)) {
    level(response);
}

fn refused(status: &Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

impl Call {
    /// Makes the call and formats its response.
    pub(crate) async fn perform(&self, channel: &Channel) -> String {
        match self.clone() {
            Self::Range(request) => shown!(KvClient::new(channel.clone()).range(request).await),
            Self::Put(request) => shown!(KvClient::new(channel.clone()).put(request).await),
            Self::Delete(request) => shown!(KvClient::new(channel.clone()).delete_range(request).await),
            Self::Txn(request) => shown!(KvClient::new(channel.clone()).txn(request).await),
            Self::Compact(request) => shown!(KvClient::new(channel.clone()).compact(request).await),
            Self::Grant(_) | Self::Revoke(_) | Self::TimeToLive(_) | Self::Leases => {
                self.lease(channel).await
            }
            Self::HashKv(_)
            | Self::Alarm(_)
            | Self::Defragment
            | Self::MoveLeader(_)
            | Self::Downgrade(_)
            | Self::MemberList
            | Self::MemberAdd(_)
            | Self::MemberRemove(_)
            | Self::MemberPromote(_) => self.member(channel).await,
            _ => self.auth(channel).await,
        }
    }

    async fn lease(&self, channel: &Channel) -> String {
        let mut client = LeaseClient::new(channel.clone());
        match self.clone() {
            Self::Grant(request) => shown!(client.lease_grant(request).await),
            Self::Revoke(request) => shown!(client.lease_revoke(request).await),
            // The remaining seconds differ between two moments.
            Self::TimeToLive(request) => {
                shown!(client.lease_time_to_live(request).await, |response| {
                    response.ttl = response.ttl.signum();
                    response.keys.sort();
                })
            }
            // The order of the leases is unspecified.
            _ => shown!(client.lease_leases(pb::LeaseLeasesRequest {}).await, |response| {
                response.leases.sort_by_key(|lease| lease.id);
            }),
        }
    }

    async fn member(&self, channel: &Channel) -> String {
        let mut client = MaintenanceClient::new(channel.clone());
        let mut cluster = ClusterClient::new(channel.clone());
        match self.clone() {
            Self::HashKv(revision) => {
                // etcd 3.5 does not have this field.
                shown!(client.hash_kv(pb::HashKvRequest { revision }).await, |response| {
                    response.hash_revision = 0;
                })
            }
            Self::Alarm(request) => shown!(client.alarm(request).await, |response| {
                response.alarms.iter_mut().for_each(|alarm| alarm.member_id = 1);
            }),
            Self::Defragment => shown!(client.defragment(pb::DefragmentRequest {}).await),
            Self::MoveLeader(target_id) => {
                shown!(client.move_leader(pb::MoveLeaderRequest { target_id }).await)
            }
            Self::Downgrade(request) => shown!(client.downgrade(request).await),
            Self::MemberAdd(peer_ur_ls) => {
                shown!(cluster.member_add(pb::MemberAddRequest { peer_ur_ls, is_learner: false }).await)
            }
            Self::MemberRemove(id) => shown!(cluster.member_remove(pb::MemberRemoveRequest { id }).await),
            Self::MemberPromote(id) => shown!(cluster.member_promote(pb::MemberPromoteRequest { id }).await),
            _ => {
                let request = pb::MemberListRequest { linearizable: true };
                shown!(cluster.member_list(request).await, |response| {
                    for member in &mut response.members {
                        member.id = (member.id != 0).into();
                        member.name = format!("named: {}", !member.name.is_empty());
                        member.peer_ur_ls.truncate(0);
                        member.client_ur_ls = vec![format!("reachable: {}", member.client_ur_ls.len())];
                    }
                })
            }
        }
    }

    async fn auth(&self, channel: &Channel) -> String {
        let mut client = AuthClient::new(channel.clone());
        let name = || "unknown-user".to_owned();
        match self.clone() {
            Self::AuthEnable => shown!(client.auth_enable(pb::AuthEnableRequest {}).await),
            Self::AuthDisable => shown!(client.auth_disable(pb::AuthDisableRequest {}).await),
            Self::AuthStatus => shown!(client.auth_status(pb::AuthStatusRequest {}).await),
            Self::Authenticate => shown!(client.authenticate(pb::AuthenticateRequest::default()).await),
            Self::UserAdd(name) => {
                let request = pb::AuthUserAddRequest { name: name.to_owned(), ..Default::default() };
                shown!(client.user_add(request).await)
            }
            Self::UserGet => shown!(client.user_get(pb::AuthUserGetRequest { name: name() }).await),
            Self::UserList => shown!(client.user_list(pb::AuthUserListRequest {}).await),
            Self::UserDelete => shown!(client.user_delete(pb::AuthUserDeleteRequest { name: name() }).await),
            Self::UserChangePassword => {
                let request = pb::AuthUserChangePasswordRequest { name: name(), ..Default::default() };
                shown!(client.user_change_password(request).await)
            }
            Self::UserGrantRole => {
                let request = pb::AuthUserGrantRoleRequest { user: name(), role: name() };
                shown!(client.user_grant_role(request).await)
            }
            Self::UserRevokeRole => {
                let request = pb::AuthUserRevokeRoleRequest { name: name(), role: name() };
                shown!(client.user_revoke_role(request).await)
            }
            Self::RoleAdd(name) => {
                shown!(client.role_add(pb::AuthRoleAddRequest { name: name.to_owned() }).await)
            }
            Self::RoleGet => shown!(client.role_get(pb::AuthRoleGetRequest { role: name() }).await),
            Self::RoleList => shown!(client.role_list(pb::AuthRoleListRequest {}).await),
            Self::RoleDelete => shown!(client.role_delete(pb::AuthRoleDeleteRequest { role: name() }).await),
            Self::RoleGrant(given) => {
                let perm = given.map(|(key, range_end)| Permission {
                    perm_type: 0,
                    key: key.into(),
                    range_end: range_end.into(),
                });
                let request = pb::AuthRoleGrantPermissionRequest { name: name(), perm };
                shown!(client.role_grant_permission(request).await)
            }
            _ => {
                let request = pb::AuthRoleRevokePermissionRequest { role: name(), ..Default::default() };
                shown!(client.role_revoke_permission(request).await)
            }
        }
    }
}
