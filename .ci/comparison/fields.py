"""The field table of the built-in kinds (api/schema/*.tbl), and what follows from it: the type of a member, and an object as protobuf.

The notation of the table is in api/src/schema/mod.rs.
"""

import base64
import binascii
import datetime
import json
import pathlib
import re
import struct

FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / "api" / "schema"

# Types with a decoder of their own: the strict check of members ends there, and any JSON may be inside.
OPAQUE = {"raw", "json", "fields", "schemaorlist", "schemaorbool", "schemaorstrings"}
ZEROS = {"str": "", "i32": 0, "i64": 0, "bool": False}


# The version that the program serves unless told otherwise; lines with another range of versions are left out.
SERVED = (1, 37)


def _is_served(words):
    """Whether a line's marks since= and until= include the served version."""
    marks = dict(word.split("=", 1) for word in words if word.startswith(("since=", "until=")))
    number = lambda text: tuple(map(int, text.split(".")))
    return number(marks.get("since", "0.0")) <= SERVED <= number(marks.get("until", "9.9"))


class NotEncodable(Exception):
    """Protobuf has no form for the value: a wrong type, an unknown member, a list that is empty and not absent."""


class Field:
    """A member: its protobuf number, its type, and how it is wrapped: pointer, list, map."""

    def __init__(self, name, number, text, package):
        self.name, self.number = name, int(number)
        self.wrap, self.type = re.match(r"([\[\]{}*]*)(.*)", text).groups()
        if self.type[:1].isupper():
            self.type = f"{package}.{self.type}"
        self.pointer = self.wrap == "*"


class Table:
    def __init__(self, folder=FOLDER):
        self.types, self.kinds = {}, {}
        for file in sorted(folder.glob("*.tbl")):
            self._read(file.read_text())

    def _read(self, text):
        package = api_version = fields = None
        for line in text.splitlines():
            words = line.split()
            if not words or line.startswith("#"):
                continue
            if line.startswith("@"):
                package = words[1]
                api_version = words[4] if words[3] == "-" else f"{words[3]}/{words[4]}"
            elif not _is_served(words):
                # The fields of a type that is not served belong to none that is.
                fields = fields if line.startswith(" ") else []
            elif line.startswith(" "):
                fields.append(Field(*words[:3], package))
            else:
                fields = self.types[f"{package}.{words[0]}"] = []
                if "kind" in words[1:]:
                    self.kinds[api_version, words[0]] = f"{package}.{words[0]}"

    def members(self, name):
        """The members of a type by their JSON names, those of inline types included; none for a scalar."""
        found = {}
        for field in self.types.get(name, []):
            found.update(self.members(field.type) if field.name == "^" else {field.name: field})
        return found

    def field(self, kind, path):
        """(field, remaining wrap) of the value at a path of a kind, or none if it is unknown or inside a type of any JSON."""
        at, wrap, field = self.kinds.get(kind), "", None
        for step in path:
            if wrap and wrap != "*":
                if isinstance(step, int) != (wrap == "[]"):
                    return None
                wrap = ""
                continue
            if at in OPAQUE or at not in self.types:
                return None
            field = self.members(at).get(step)
            if field is None:
                return None
            at, wrap = field.type, field.wrap
        return field and (field, wrap)

    def zero(self, kind, path):
        """The Go zero value of an element of a list or map at the path, as JSON; none if there is none that decodes equally."""
        found = self.field(kind, path)
        if found is None or found[1]:
            return None
        if found[0].type in self.types:
            return {}
        return ZEROS.get(found[0].type)

    def encode(self, value):
        """The object as a client in Go sends it: b"k8s\\0" and its envelope."""
        kind = (value.get("apiVersion"), value.get("kind"))
        if kind not in self.kinds:
            raise NotEncodable(f"{kind} has no protobuf form")
        body = {name: below for name, below in value.items() if name not in ("apiVersion", "kind")}
        meta = _bytes(1, kind[0].encode()) + _bytes(2, kind[1].encode())
        return b"k8s\0" + _bytes(1, meta) + _bytes(2, self._message(body, self.kinds[kind])) + _bytes(3, b"") + _bytes(4, b"")

    def _message(self, value, name):
        if not isinstance(value, dict) or not set(value) <= set(self.members(name)):
            raise NotEncodable(f"not a {name}")
        out = b""
        for field in self.types[name]:
            if field.name == "^":
                inner = self.members(field.type)
                out += _bytes(field.number, self._message({key: below for key, below in value.items() if key in inner}, field.type))
            else:
                out += self._field(field, value.get(field.name))
        return out

    def _field(self, field, value):
        if value is None:
            return b"" if field.wrap or field.type == "bytes" else self._zero(field)
        if field.wrap == "[]":
            if not isinstance(value, list) or not value or None in value:
                raise NotEncodable("a list that is empty, or no list")
            return b"".join(self._value(field.number, field.type, below) for below in value)
        if field.wrap == "{}":
            if not isinstance(value, dict) or not value or None in value.values():
                raise NotEncodable("a map that is empty, or no map")
            return b"".join(_bytes(field.number, _bytes(1, key.encode()) + self._value(2, field.type, value[key])) for key in sorted(value))
        return self._value(field.number, field.type, value)

    def _zero(self, field):
        """What Go writes for a member that is no pointer and not set."""
        if field.type in ZEROS:
            return self._value(field.number, field.type, ZEROS[field.type])
        if field.type == "quantity":
            return _bytes(field.number, _bytes(1, b"0"))
        if field.type == "intstr":
            return _bytes(field.number, _number(1, 0) + _number(2, 0) + _bytes(3, b""))
        if field.type == "f64":
            return _varint(field.number << 3 | 1) + struct.pack("<d", 0)
        return _bytes(field.number, self._message({}, field.type) if field.type in self.types else b"")

    def _value(self, number, name, value):
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if name in ("i32", "i64") and is_number:
            return _number(number, value)
        if name == "bool" and isinstance(value, bool):
            return _number(number, int(value))
        if name == "f64" and (is_number or isinstance(value, float)):
            return _varint(number << 3 | 1) + struct.pack("<d", value)
        if name == "intstr" and is_number:
            return _bytes(number, _number(1, 0) + _number(2, value) + _bytes(3, b""))
        if name in self.types:
            return _bytes(number, self._message(value, name))
        if name in OPAQUE or name == "items":
            return _bytes(number, self._opaque(name, value))
        if isinstance(value, str):
            return _bytes(number, _text(name, value))
        raise NotEncodable(f"no {name}")

    def _opaque(self, name, value):
        """Messages that JSON shows as any value, as a schema or something simpler, or as a list of strings."""
        if name in ("raw", "json", "fields"):
            return _bytes(1, json.dumps(value).encode())
        if name in ("items", "schemaorstrings") and isinstance(value, list) and all(isinstance(below, str) for below in value):
            return b"".join(_bytes(1 if name == "items" else 2, below.encode()) for below in value)
        if name == "schemaorbool" and isinstance(value, bool):
            return _number(1, int(value))
        if name == "items" or isinstance(value, list):
            raise NotEncodable(f"no {name}")
        allowed = _number(1, 1) if name == "schemaorbool" else b""
        return allowed + _bytes(2 if allowed else 1, self._message(value, "apiextensions/v1.JSONSchemaProps"))


def _text(name, value):
    """The bytes of a scalar that is a string in JSON."""
    if name == "str":
        return value.encode()
    if name == "bytes":
        try:
            return base64.b64decode(value)
        except binascii.Error as error:
            raise NotEncodable(str(error)) from error
    if name == "quantity":
        return _bytes(1, value.encode())
    if name == "intstr":
        return _number(1, 1) + _number(2, 0) + _bytes(3, value.encode())
    if name in ("time", "microtime"):
        try:
            when = datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError as error:
            raise NotEncodable(str(error)) from error
        return _number(1, int(when.timestamp())) + _number(2, when.microsecond * 1000)
    raise NotEncodable(f"no {name}")


def _varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def _number(number, value):
    return _varint(number << 3) + _varint(value)


def _bytes(number, value):
    return _varint(number << 3 | 2) + _varint(len(value)) + value
