"""Watches of the Python client: from now, from a revision, by selector, and from a compacted revision."""

import json
import threading
import zlib

import pytest
import urllib3
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


def events_of(response):
    """The events of a compressed response, each as soon as its bytes are there. A flush may begin another member of the text."""
    decoder, text = zlib.decompressobj(31), b""
    for chunk in response.stream(decode_content=False):
        while chunk:
            text += decoder.decompress(chunk)
            chunk = decoder.unused_data
            if decoder.eof:
                decoder = zlib.decompressobj(31)
        *lines, text = text.split(b"\n")
        yield from (json.loads(line) for line in lines)


def test_each_event_of_a_compressed_watch_comes_before_the_next_write(api, core, namespace):
    core.create_namespaced_config_map(namespace, config_map("first", tier="x"))
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    headers = {"Accept": "application/json", "Accept-Encoding": "gzip"}
    query = []
    api.update_params_for_auth(headers, query, ["BearerToken"], path, "GET", None)
    query += [
        ("watch", "true"),
        ("labelSelector", "tier=x"),
        ("sendInitialEvents", "true"),
        ("resourceVersionMatch", "NotOlderThan"),
        ("allowWatchBookmarks", "true"),
    ]
    response = api.rest_client.pool_manager.request(
        "GET",
        api.configuration.host + path,
        fields=query,
        headers=headers,
        preload_content=False,
        timeout=urllib3.Timeout(connect=60, read=60),
    )
    assert response.status == 200
    assert response.headers["Content-Encoding"] == "gzip"
    assert response.headers["Vary"] == "Accept-Encoding"
    events = events_of(response)
    initial = next(events)
    assert (initial["type"], initial["object"]["metadata"]["name"]) == ("ADDED", "first")
    bookmark = next(events)
    assert bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true"
    # A large event is not one flush of the compression.
    for name, size in [("a", 1), ("b", 200_000), ("c", 1)]:
        data = "".join(chr(33 + (number * number * 7919 + number // 3) % 90) for number in range(size))
        made = config_map(name, tier="x")
        made.data = {"k": data}
        core.create_namespaced_config_map(namespace, made)
        event = next(events)
        while event["type"] == "BOOKMARK":
            event = next(events)
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", name)
        assert event["object"]["data"]["k"] == data
    response.close()


def test_a_watch_of_a_client_that_takes_no_gzip_is_plain(api, namespace):
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    query = [("watch", "true"), ("timeoutSeconds", "1")]
    api.update_params_for_auth(headers, query, ["BearerToken"], path, "GET", None)
    url = api.configuration.host + path
    response = api.rest_client.pool_manager.request("GET", url, fields=query, headers=headers)
    assert (response.status, response.headers.get("Content-Encoding")) == (200, None)


def test_a_watch_ends_at_its_timeout(core, namespace):
    stream = watch.Watch().stream(core.list_namespaced_secret, namespace, timeout_seconds=1)
    assert list(stream) == []


def test_a_revision_of_the_future_is_refused(core, namespace):
    with pytest.raises(ApiException) as error:
        core.list_namespaced_config_map(namespace, resource_version="999999999")
    assert error.value.status == 504
