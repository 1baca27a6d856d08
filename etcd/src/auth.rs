//! The Auth service of a server without users: every client has full access, and no user can be added.

use crate::error::{self, unimplemented};
use crate::node::Node;
use kstore_proto::etcd::authpb::Permission;
use kstore_proto::etcd::etcdserverpb as pb;
use tonic::{Request, Response, Status, async_trait};

/// Why no user can be added.
const NO_USERS: &str =
    "users and roles are not supported; use client certificates instead (--etcd-trusted-ca-file)";

/// etcd's auth revision before any change.
const AUTH_REVISION: u64 = 1;

type RpcResult<T> = Result<Response<T>, Status>;

#[async_trait]
impl pb::auth_server::Auth for Node {
    async fn auth_enable(&self, _: Request<pb::AuthEnableRequest>) -> RpcResult<pb::AuthEnableResponse> {
        Err(error::ROOT_USER_MISSING.into())
    }

    async fn auth_disable(&self, _: Request<pb::AuthDisableRequest>) -> RpcResult<pb::AuthDisableResponse> {
        Ok(Response::new(pb::AuthDisableResponse { header: self.header_now() }))
    }

    async fn auth_status(&self, _: Request<pb::AuthStatusRequest>) -> RpcResult<pb::AuthStatusResponse> {
        let (header, enabled) = (self.header_now(), false);
        Ok(Response::new(pb::AuthStatusResponse { header, enabled, auth_revision: AUTH_REVISION }))
    }

    async fn authenticate(&self, _: Request<pb::AuthenticateRequest>) -> RpcResult<pb::AuthenticateResponse> {
        Err(error::AUTH_NOT_ENABLED.into())
    }

    async fn user_add(&self, request: Request<pb::AuthUserAddRequest>) -> RpcResult<pb::AuthUserAddResponse> {
        match request.into_inner().name.is_empty() {
            true => Err(error::USER_EMPTY.into()),
            false => Err(unimplemented(NO_USERS)),
        }
    }

    async fn user_get(&self, _: Request<pb::AuthUserGetRequest>) -> RpcResult<pb::AuthUserGetResponse> {
        Err(error::USER_NOT_FOUND.into())
    }

    async fn user_list(&self, _: Request<pb::AuthUserListRequest>) -> RpcResult<pb::AuthUserListResponse> {
        Ok(Response::new(pb::AuthUserListResponse { header: self.header_now(), users: Vec::new() }))
    }

    async fn user_delete(
        &self,
        _: Request<pb::AuthUserDeleteRequest>,
    ) -> RpcResult<pb::AuthUserDeleteResponse> {
        Err(error::USER_NOT_FOUND.into())
    }

    async fn user_change_password(
        &self,
        _: Request<pb::AuthUserChangePasswordRequest>,
    ) -> RpcResult<pb::AuthUserChangePasswordResponse> {
        Err(error::USER_NOT_FOUND.into())
    }

    async fn user_grant_role(
        &self,
        _: Request<pb::AuthUserGrantRoleRequest>,
    ) -> RpcResult<pb::AuthUserGrantRoleResponse> {
        Err(error::USER_NOT_FOUND.into())
    }

    async fn user_revoke_role(
        &self,
        _: Request<pb::AuthUserRevokeRoleRequest>,
    ) -> RpcResult<pb::AuthUserRevokeRoleResponse> {
        Err(error::USER_NOT_FOUND.into())
    }

    async fn role_add(&self, request: Request<pb::AuthRoleAddRequest>) -> RpcResult<pb::AuthRoleAddResponse> {
        match request.into_inner().name.is_empty() {
            true => Err(error::ROLE_EMPTY.into()),
            false => Err(unimplemented(NO_USERS)),
        }
    }

    async fn role_get(&self, _: Request<pb::AuthRoleGetRequest>) -> RpcResult<pb::AuthRoleGetResponse> {
        Err(error::ROLE_NOT_FOUND.into())
    }

    async fn role_list(&self, _: Request<pb::AuthRoleListRequest>) -> RpcResult<pb::AuthRoleListResponse> {
        Ok(Response::new(pb::AuthRoleListResponse { header: self.header_now(), roles: Vec::new() }))
    }

    async fn role_delete(
        &self,
        _: Request<pb::AuthRoleDeleteRequest>,
    ) -> RpcResult<pb::AuthRoleDeleteResponse> {
        Err(error::ROLE_NOT_FOUND.into())
    }

    async fn role_grant_permission(
        &self,
        request: Request<pb::AuthRoleGrantPermissionRequest>,
    ) -> RpcResult<pb::AuthRoleGrantPermissionResponse> {
        match request.into_inner().perm {
            None => Err(error::PERMISSION_NOT_GIVEN.into()),
            Some(permission) if !is_range(&permission) => Err(error::INVALID_PERMISSION.into()),
            Some(_) => Err(error::ROLE_NOT_FOUND.into()),
        }
    }

    async fn role_revoke_permission(
        &self,
        _: Request<pb::AuthRoleRevokePermissionRequest>,
    ) -> RpcResult<pb::AuthRoleRevokePermissionResponse> {
        Err(error::ROLE_NOT_FOUND.into())
    }
}

/// Whether a permission covers any key.
fn is_range(permission: &Permission) -> bool {
    let Permission { key, range_end, .. } = permission;
    !key.is_empty() && (range_end.is_empty() || range_end[..] == [0] || key < range_end)
}
