"""Python's typed client: every verb, every patch type, and its exceptions."""

import pytest
from kubernetes import client
from kubernetes.client.rest import ApiException


def config_map(name, data=None, **metadata):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, **metadata), data=data or {})


def deployment(name, replicas=1, image="nginx:1"):
    labels = {"app": name}
    container = client.V1Container(name="main", image=image, ports=[client.V1ContainerPort(container_port=80)])
    return client.V1Deployment(
        metadata=client.V1ObjectMeta(name=name),
        spec=client.V1DeploymentSpec(
            replicas=replicas,
            selector=client.V1LabelSelector(match_labels=labels),
            template=client.V1PodTemplateSpec(
                metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container])
            ),
        ),
    )


def test_an_object_lives_from_create_to_delete(core, namespace):
    created = core.create_namespaced_config_map(namespace, config_map("a", {"k": "1"}))
    assert created.metadata.uid and created.metadata.resource_version
    created.data["k"] = "2"
    replaced = core.replace_namespaced_config_map("a", namespace, created)
    assert replaced.data == {"k": "2"}
    assert int(replaced.metadata.resource_version) > int(created.metadata.resource_version)
    assert core.read_namespaced_config_map("a", namespace).data == {"k": "2"}
    deleted = core.delete_namespaced_config_map("a", namespace)
    assert deleted["status"] == "Success" and deleted["details"]["uid"] == created.metadata.uid
    with pytest.raises(ApiException) as error:
        core.read_namespaced_config_map("a", namespace)
    assert error.value.status == 404 and '"reason":"NotFound"' in error.value.body


def test_a_stale_replace_conflicts_and_an_equal_one_writes_nothing(core, namespace):
    first = core.create_namespaced_config_map(namespace, config_map("a", {"k": "1"}))
    same = core.replace_namespaced_config_map("a", namespace, first)
    assert same.metadata.resource_version == first.metadata.resource_version
    core.patch_namespaced_config_map("a", namespace, {"data": {"k": "2"}})
    with pytest.raises(ApiException) as error:
        core.replace_namespaced_config_map("a", namespace, first)
    assert error.value.status == 409 and '"reason":"Conflict"' in error.value.body


def test_the_kind_of_patch_follows_the_body(core, apps, namespace):
    apps.create_namespaced_deployment(namespace, deployment("web"))
    strategic = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}}}
    patched = apps.patch_namespaced_deployment("web", namespace, strategic)
    container = patched.spec.template.spec.containers[0]
    assert (container.image, container.ports[0].container_port) == ("nginx:2", 80)
    operations = [{"op": "replace", "path": "/spec/replicas", "value": 2}]
    assert apps.patch_namespaced_deployment("web", namespace, operations).spec.replicas == 2


def test_server_side_apply_owns_fields_and_reports_conflicts(core, namespace):
    def apply(manager, data, force=None):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}
        return core.patch_namespaced_config_map(
            "a",
            namespace,
            body,
            field_manager=manager,
            force=force,
            _content_type="application/apply-patch+yaml",
        )

    assert apply("one", {"x": "1"}).data == {"x": "1"}
    assert apply("two", {"y": "2"}).data == {"x": "1", "y": "2"}
    with pytest.raises(ApiException) as error:
        apply("two", {"x": "3", "y": "2"})
    assert error.value.status == 409 and 'conflict with \\"one\\"' in error.value.body
    forced = apply("two", {"x": "3"}, force=True)
    assert forced.data == {"x": "3"}
    assert [entry.manager for entry in forced.metadata.managed_fields] == ["two"]


def test_lists_page_at_one_revision_while_others_write(core, namespace):
    for index in range(5):
        core.create_namespaced_config_map(namespace, config_map(f"a{index}"))
    page = core.list_namespaced_config_map(namespace, limit=2)
    names, revision = [item.metadata.name for item in page.items], page.metadata.resource_version
    core.delete_namespaced_config_map("a4", namespace)
    while page.metadata._continue:
        page = core.list_namespaced_config_map(namespace, limit=2, _continue=page.metadata._continue)
        assert page.metadata.resource_version == revision
        names += [item.metadata.name for item in page.items]
    assert [name for name in names if name.startswith("a")] == ["a0", "a1", "a2", "a3", "a4"]


def test_selectors_choose_and_bad_ones_are_refused(core, namespace):
    core.create_namespaced_config_map(namespace, config_map("a", labels={"tier": "x"}))
    core.create_namespaced_config_map(namespace, config_map("b", labels={"tier": "y"}))
    chosen = core.list_namespaced_config_map(namespace, label_selector="tier in (x, z),!gone")
    assert [item.metadata.name for item in chosen.items] == ["a"]
    chosen = core.list_namespaced_config_map(namespace, field_selector="metadata.name=b")
    assert [item.metadata.name for item in chosen.items] == ["b"]
    for bad in [{"label_selector": "a=(b"}, {"field_selector": "spec.nope=1"}]:
        with pytest.raises(ApiException) as error:
            core.list_namespaced_config_map(namespace, **bad)
        assert error.value.status == 400


def test_delete_options_travel_in_the_query_and_in_the_body(apps, core, namespace):
    apps.create_namespaced_deployment(namespace, deployment("web"))
    apps.delete_namespaced_deployment("web", namespace, propagation_policy="Foreground")
    pod = client.V1Pod(
        metadata=client.V1ObjectMeta(name="p"),
        spec=client.V1PodSpec(containers=[client.V1Container(name="main", image="nginx")]),
    )
    uid = core.create_namespaced_pod(namespace, pod).metadata.uid
    with pytest.raises(ApiException) as error:
        wrong = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="other"))
        core.delete_namespaced_pod("p", namespace, body=wrong)
    assert error.value.status == 409
    right = client.V1DeleteOptions(grace_period_seconds=0, preconditions=client.V1Preconditions(uid=uid))
    core.delete_namespaced_pod("p", namespace, body=right)
    with pytest.raises(ApiException) as error:
        core.read_namespaced_pod("p", namespace)
    assert error.value.status == 404


def test_dry_runs_and_generated_names(core, namespace):
    dry = core.create_namespaced_config_map(namespace, config_map("a"), dry_run="All")
    assert dry.metadata.uid
    with pytest.raises(ApiException):
        core.read_namespaced_config_map("a", namespace)
    generated = client.V1ConfigMap(metadata=client.V1ObjectMeta(generate_name="gen-"))
    name = core.create_namespaced_config_map(namespace, generated).metadata.name
    assert name.startswith("gen-") and len(name) == len("gen-") + 5


def test_scale_and_status_are_resources_of_their_own(apps, namespace):
    apps.create_namespaced_deployment(namespace, deployment("web"))
    scale = apps.read_namespaced_deployment_scale("web", namespace)
    scale.spec.replicas = 0
    # Unconditional: the controllers write to the deployment at the same time.
    scale.metadata.resource_version = None
    assert apps.replace_namespaced_deployment_scale("web", namespace, scale).spec.replicas == 0
    assert apps.read_namespaced_deployment("web", namespace).spec.replicas == 0
    status = {"status": {"conditions": [{"type": "Seen", "status": "True"}]}, "spec": {"replicas": 7}}
    patched = apps.patch_namespaced_deployment_status("web", namespace, status)
    assert patched.spec.replicas == 0
    assert "Seen" in [condition.type for condition in patched.status.conditions]


def test_collections_are_deleted_by_selector(core, namespace):
    for name, tier in [("a", "x"), ("b", "x"), ("c", "y")]:
        core.create_namespaced_config_map(namespace, config_map(name, labels={"tier": tier}))
    core.delete_collection_namespaced_config_map(namespace, label_selector="tier=x")
    left = [item.metadata.name for item in core.list_namespaced_config_map(namespace).items]
    assert "c" in left and "a" not in left and "b" not in left


def test_invalid_objects_name_their_fields(apps, namespace):
    bad = deployment("web", replicas=-1)
    with pytest.raises(ApiException) as error:
        apps.create_namespaced_deployment(namespace, bad)
    assert error.value.status == 422
    assert "spec.replicas: Invalid value: -1: must be greater than or equal to 0" in error.value.body


def test_an_eviction_deletes_a_pod_that_no_budget_protects(core, namespace):
    pod = client.V1Pod(
        metadata=client.V1ObjectMeta(name="p"),
        spec=client.V1PodSpec(
            termination_grace_period_seconds=0, containers=[client.V1Container(name="main", image="nginx")]
        ),
    )
    core.create_namespaced_pod(namespace, pod)
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="p", namespace=namespace))
    assert core.create_namespaced_pod_eviction("p", namespace, eviction) is not None


def test_versions_and_groups_are_told(api):
    version = client.VersionApi(api).get_code()
    assert version.major.isdigit() and version.minor.isdigit()
    groups = [group.name for group in client.ApisApi(api).get_api_versions().groups]
    assert {"apps", "batch", "rbac.authorization.k8s.io"} <= set(groups)
