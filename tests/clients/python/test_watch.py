"""Watches of the Python client: from now, from a revision, by selector, and from a compacted revision."""

import threading

import pytest
from kubernetes import client, watch
from kubernetes.client.rest import ApiException


def config_map(name, **labels):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels=labels))


def taken(count, stream):
    events = []
    for event in stream:
        events.append((event["type"], event["object"].metadata.name))
        if len(events) == count:
            break
    return events


def test_a_watch_from_a_list_misses_and_repeats_nothing(core, namespace):
    core.create_namespaced_config_map(namespace, config_map("before"))
    revision = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.create_namespaced_config_map(namespace, config_map("a"))
    core.patch_namespaced_config_map("a", namespace, {"data": {"k": "1"}})
    core.delete_namespaced_config_map("a", namespace)
    stream = watch.Watch().stream(
        core.list_namespaced_config_map,
        namespace,
        field_selector="metadata.name=a",
        resource_version=revision,
        timeout_seconds=180,
    )
    assert taken(3, stream) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_a_watch_without_a_revision_begins_with_what_is_there(core, namespace):
    core.create_namespaced_config_map(namespace, config_map("a", tier="x"))
    writer = threading.Timer(0.3, core.create_namespaced_config_map, (namespace, config_map("b", tier="x")))
    writer.start()
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, namespace, label_selector="tier=x", timeout_seconds=180
    )
    assert taken(2, stream) == [("ADDED", "a"), ("ADDED", "b")]
    writer.join()


def test_an_object_that_leaves_a_selector_is_deleted_for_the_watcher(core, namespace):
    core.create_namespaced_config_map(namespace, config_map("a", tier="x"))
    revision = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.patch_namespaced_config_map("a", namespace, {"metadata": {"labels": {"tier": "y"}}})
    core.patch_namespaced_config_map("a", namespace, {"metadata": {"labels": {"tier": "x"}}})
    stream = watch.Watch().stream(
        core.list_namespaced_config_map,
        namespace,
        label_selector="tier=x",
        resource_version=revision,
        timeout_seconds=180,
    )
    assert taken(2, stream) == [("DELETED", "a"), ("ADDED", "a")]


def test_a_watch_ends_at_its_timeout(core, namespace):
    stream = watch.Watch().stream(core.list_namespaced_secret, namespace, timeout_seconds=1)
    assert list(stream) == []


def test_a_revision_of_the_future_is_refused(core, namespace):
    with pytest.raises(ApiException) as error:
        core.list_namespaced_config_map(namespace, resource_version="999999999")
    assert error.value.status == 504
