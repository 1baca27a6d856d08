"""Tests of .ci/compare itself, which need no server: .ci/compare --self-test."""

import copy
import json
import pathlib
import tempfile
import unittest

from . import answers, cases, fields, invariants, state
from .server import Answer

SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}], "publishNotReadyAddresses": True}}


def base(value=None):
    return cases.Base(copy.deepcopy(value or SERVICE))


def made(path, change):
    """The body of a case of SERVICE."""
    return next(case for case in cases.generate([base()]) if case.path == path and case.change == change and case.verb == "create")


def answered(code, body, sent="", warnings=()):
    return answers.normal(Answer(code, body, list(warnings), 0), sent)


class State(unittest.TestCase):
    def test_documents_are_compared_without_descriptions_and_shared_parameters(self):
        shared = {"parameters": {"p-1": {"name": "p", "in": "query", "description": "a"}}, "paths": {"/": {"parameters": [{"$ref": "#/parameters/p-1"}]}}}
        inline = {"paths": {"/": {"parameters": [{"name": "p", "in": "query", "description": "b"}]}}}
        self.assertEqual(state.document(shared), state.document(inline))

    def test_differences_are_grouped_by_their_last_members(self):
        left = {"openapi v3 a": {"x": {"enum": ["a"]}}, "openapi v3 b": {"x": {"enum": ["a"]}}}
        right = {"openapi v3 a": {"x": {}}, "openapi v3 b": {"x": {}}}
        self.assertEqual(dict(state.groups(left, right)), {("openapi v3", "x.enum", "only left"): 2})

    def test_metrics_have_their_types_and_labels(self):
        page = '# TYPE a_seconds histogram\na_seconds_bucket{verb="get",le="1"} 2\na_seconds_sum{verb="get"} 1\n'
        self.assertEqual(state.metrics(page), {"a_seconds": {"type": "histogram", "labels": ["le", "verb"]}})


class Cases(unittest.TestCase):
    def test_a_case_differs_from_its_object_in_one_member(self):
        self.assertEqual(made(("spec", "ports", 0, "port"), "removed").body["spec"]["ports"], [{}])
        self.assertEqual(made(("spec", "ports"), "emptied").body["spec"]["ports"], [])
        self.assertEqual(made(("spec", "ports"), "null").body["spec"]["ports"], None)
        self.assertEqual(made(("spec", "ports", 0, "port"), "wrong-type").body["spec"]["ports"], [{"port": "text"}])
        self.assertEqual(made(("spec", "ports", 0), "repeated").body["spec"]["ports"], [{"port": 80}, {"port": 80}])
        self.assertEqual(made(("spec", "ports", 0, "unknownMember"), "unknown").body["spec"]["ports"], [{"port": 80, "unknownMember": 1}])

    def test_a_member_is_written_twice_with_the_same_value(self):
        text = made(("spec", "ports", 0, "port"), "twice").text()
        self.assertIn('[{"port": 80, "port": 80}]', text)
        self.assertEqual(json.loads(text), SERVICE)

    def test_cases_are_the_same_each_time_and_have_names_of_their_own(self):
        first = [case.name for case in cases.generate(cases.load())]
        self.assertEqual(first, [case.name for case in cases.generate(cases.load())])
        self.assertEqual(len(first), len(set(first)))
        self.assertGreater(len(first), 10000)

    def test_a_limit_chooses_cases_of_all_kinds_and_verbs(self):
        chosen = cases.some(cases.generate(cases.load()), 400)
        self.assertEqual(len(chosen), 400)
        self.assertGreater(len({case.base.kind for case in chosen}), 20)
        self.assertEqual({case.verb for case in chosen}, {"create", "update", "merge", "apply"})

    def test_a_merge_patch_makes_the_changed_object(self):
        changed = cases.changed(SERVICE, ("spec", "ports"), cases.REMOVED)
        patch = cases.difference(SERVICE, changed)
        self.assertEqual(patch, {"spec": {"ports": None}})
        patched = copy.deepcopy(SERVICE)
        cases.merge(patched, patch)
        self.assertEqual(patched, changed)


class Answers(unittest.TestCase):
    def test_what_varies_is_replaced_and_what_was_sent_is_kept(self):
        body = {"metadata": {"uid": "11111111-2222-3333-4444-555555555555", "creationTimestamp": "2026-01-02T03:04:05Z", "resourceVersion": "7"}}
        self.assertEqual(answered(201, body)["object"]["metadata"], {"uid": "<uid>", "creationTimestamp": "<time>", "resourceVersion": "<chosen>"})
        self.assertEqual(answered(201, body, json.dumps(body))["object"], body)

    def test_a_difference_of_long_texts_is_shown_where_it_begins(self):
        said = answers.difference(["x" * 1000 + "one"], ["x" * 1000 + "two"])
        self.assertEqual(said, f"[0]: …{'x' * 60}one <> …{'x' * 60}two")

    def test_resource_versions_in_quoted_objects_are_replaced(self):
        text = '"{\\"resourceVersion\\":\\"12\\"}"'
        said = answered(422, {"kind": "Status", "message": text})
        self.assertEqual(said["text"][0], text.replace("12", "<chosen>"))

    def test_the_order_of_errors_does_not_matter(self):
        texts = ["a is invalid: [x: Required value, y: Invalid value: 1]", "a is invalid: [y: Invalid value: 1, x: Required value]"]
        said = [answered(422, {"kind": "Status", "reason": "Invalid", "message": text}) for text in texts]
        self.assertEqual(answers.classify(*said), "equal")

    def test_the_gravest_difference_names_the_class(self):
        left = answered(422, {"kind": "Status", "reason": "Invalid", "message": "a", "details": {"causes": [{"field": "x", "reason": "R", "message": "m"}]}})
        for change, kind in (({"code": 400}, "code"), ({"causes": []}, "causes"), ({"text": "b"}, "text"), ({"warnings": ["w"], "text": "b"}, "warnings")):
            self.assertEqual(answers.classify(left, {**left, **change}), kind)

    def test_a_record_is_read_as_it_was_written(self):
        said = answered(201, {"kind": "Service"})
        with tempfile.TemporaryDirectory() as folder:
            for name in ("a.jsonl", "a.jsonl.gz"):
                path = pathlib.Path(folder) / name
                answers.write(path, "v1.36.2", [("case", said)])
                self.assertEqual(answers.read(path), ("v1.36.2", {"case": said}))


class Fields(unittest.TestCase):
    table = fields.Table()

    def test_an_object_is_encoded_as_the_field_numbers_say(self):
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "automountServiceAccountToken": True}
        encoded = self.table.encode(body)
        self.assertTrue(encoded.startswith(b"k8s\0\n\x14\n\x02v1\x12\x0eServiceAccount\x12"))
        self.assertTrue(encoded.endswith(b" \x01\x1a\x00\"\x00"))

    def test_what_protobuf_cannot_say_is_not_encoded(self):
        for path, change in ((("spec", "ports"), "emptied"), (("spec", "ports", 0, "port"), "wrong-type"), (("spec", "unknownMember"), "unknown")):
            with self.subTest(path=path), self.assertRaises(fields.NotEncodable):
                self.table.encode(made(path, change).body)
        self.table.encode(made(("spec", "ports"), "null").body)

    def test_the_type_of_a_member_is_found_below_lists_and_maps(self):
        field, wrap = self.table.field(("v1", "Service"), ("spec", "ports", 0, "targetPort"))
        self.assertEqual((field.type, wrap), ("intstr", ""))
        self.assertEqual(self.table.zero(("v1", "ConfigMap"), ("data", "a")), "")
        self.assertIsNone(self.table.field(("apps/v1", "ControllerRevision"), ("data", "a")))


class Invariants(unittest.TestCase):
    def test_texts_of_rust_are_found(self):
        for text in ('invalid type: string "a", expected i32', "Invalid value: Some(1)", "expected value at line 1 column 2"):
            self.assertRegex(text, invariants.RUST)
        for text in ('Invalid value: "a": must be of type int32', "spec.clusterIP: Invalid value: None", 'unknown field "spec.a"'):
            self.assertNotRegex(text, invariants.RUST)

    def test_yaml_says_the_same_value(self):
        value = {"a": [{"b": 1, "c": []}, [2, "x: y"], {}], "d": {"e": None}}
        self.assertEqual(invariants.as_yaml(value), '"a":\n  -\n    "b": 1\n    "c": []\n  -\n    - 2\n    - "x: y"\n  - {}\n"d":\n  "e": null')

    def test_pairs_that_go_cannot_tell_apart_are_compared(self):
        checks = invariants.Checks(None, 1)
        path = ("spec", "publishNotReadyAddresses")
        absent, other = answered(201, {"kind": "Service"}), answered(201, {"kind": "Service", "spec": {}})
        said = [(made(path, "removed"), absent), (made(path, "null"), absent), (made(path, "emptied"), other)]
        said = [(case, answer) for case, answer in said]
        for case, _ in said:
            case.base = said[0][0].base
        self.assertEqual([finding.rule for finding in checks.pairs(said)], ["zero-is-absent"])


def run():
    return unittest.main(module=__name__, argv=["compare"], exit=False).result.wasSuccessful()
