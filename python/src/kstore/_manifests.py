"""Manifests in every form that tests have them in, as a list of objects."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, Iterable, List, Union

from ._errors import UsageError, hide_frames

__tracebackhide__ = hide_frames

Manifest = Union[Dict[str, Any], str, "os.PathLike[str]", Iterable[Any]]


def objects_of(manifest: Manifest, source: str = "the manifest") -> List[Dict[str, Any]]:
    """The objects, in their order; those of a `List` one by one.

    A text is YAML (several documents too) or JSON; a `Path` is a file, or a folder of .yaml, .yml and .json files in order of name; a
    sequence has any of these. Raises UsageError, which names `source` or the file, if one is no object with apiVersion, kind and name.
    """
    if isinstance(manifest, dict):
        if str(manifest.get("kind", "")).endswith("List") and isinstance(manifest.get("items"), list):
            return [found for item in manifest["items"] for found in objects_of(item, source)]
        return [_checked(manifest, source)]
    if isinstance(manifest, str):
        return [found for document in _documents(manifest, source) for found in objects_of(document, source)]
    if isinstance(manifest, os.PathLike):
        return _from_path(Path(manifest))
    if hasattr(manifest, "to_dict"):
        raise UsageError("a model of the kubernetes package is no manifest; give ApiClient().sanitize_for_serialization(model)")
    return [found for item in manifest for found in objects_of(item, source)]


def _from_path(path: Path) -> List[Dict[str, Any]]:
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in (".yaml", ".yml", ".json"))
        if not files:
            raise UsageError(f"the folder {path} has no .yaml, .yml or .json file")
        return [found for file in files for found in _from_path(file)]
    return objects_of(path.read_text(), str(path))


def _documents(text: str, source: str) -> List[Any]:
    try:
        return [json.loads(text)]
    except ValueError:
        pass
    try:
        import yaml
    except ImportError as error:
        raise UsageError("YAML needs PyYAML: pip install 'kstore[yaml]', or give JSON or dicts") from error
    try:
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = source if mark is None else f"{source}, line {mark.line + 1}"
        raise UsageError(f"{place}: neither JSON nor YAML: {getattr(error, 'problem', None) or error}") from error
    for document in documents:
        if not isinstance(document, dict):
            raise UsageError(f"{source} is no object: {str(document)[:80]!r}; a file is given as pathlib.Path")
    return documents


def _checked(manifest: Dict[str, Any], source: str) -> Dict[str, Any]:
    metadata = manifest.get("metadata")
    if not (manifest.get("apiVersion") and manifest.get("kind") and isinstance(metadata, dict) and metadata.get("name")):
        raise UsageError(f"{source} needs apiVersion, kind and metadata.name: {json.dumps(manifest, default=str)[:200]}")
    return manifest
