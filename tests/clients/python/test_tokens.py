"""Tokens of service accounts: requested, used, reviewed, and invalid once their account is deleted."""

import pytest
from kubernetes import client
from kubernetes.client.rest import ApiException


@pytest.fixture
def account(core, namespace):
    core.create_namespaced_service_account(
        namespace, client.V1ServiceAccount(metadata=client.V1ObjectMeta(name="builder"))
    )
    return f"system:serviceaccount:{namespace}:builder"


@pytest.fixture
def token(core, namespace, account):
    wanted = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=600))
    return core.create_namespaced_service_account_token("builder", namespace, wanted).status.token


def core_with(api, token):
    """The core API with this token and no certificate."""
    configuration = client.Configuration()
    configuration.host = api.configuration.host
    configuration.ssl_ca_cert = api.configuration.ssl_ca_cert
    configuration.api_key = {"authorization": f"Bearer {token}"}
    return client.CoreV1Api(client.ApiClient(configuration))


def refusal(call, *arguments):
    with pytest.raises(ApiException) as error:
        call(*arguments)
    return error.value.status


def test_a_token_speaks_for_its_account_as_long_as_that_is_there(api, core, namespace, account, token):
    bearer = core_with(api, token)
    assert refusal(bearer.list_namespaced_config_map, namespace) == 403
    binding = client.V1RoleBinding(
        metadata=client.V1ObjectMeta(name="view"),
        role_ref=client.V1RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="view"),
        subjects=[client.RbacV1Subject(kind="ServiceAccount", name="builder", namespace=namespace)],
    )
    client.RbacAuthorizationV1Api(api).create_namespaced_role_binding(namespace, binding)
    bearer.list_namespaced_config_map(namespace)
    assert refusal(bearer.list_namespaced_secret, namespace) == 403

    core.delete_namespaced_service_account("builder", namespace)
    assert refusal(bearer.list_namespaced_config_map, namespace) == 401


def test_a_review_tells_who_a_token_speaks_for_and_to_whom(api, account, token):
    def review(token, audiences=None):
        spec = client.V1TokenReviewSpec(token=token, audiences=audiences)
        return client.AuthenticationV1Api(api).create_token_review(client.V1TokenReview(spec=spec)).status

    good = review(token)
    assert good.authenticated and good.user.username == account
    assert "system:serviceaccounts" in good.user.groups and good.audiences
    assert not review(token, ["somebody-else"]).authenticated
    assert not review(token + "x").authenticated


def test_what_is_no_token_is_refused_and_not_anonymous(api, namespace):
    assert refusal(core_with(api, "no.such.token").list_namespaced_config_map, namespace) == 401
