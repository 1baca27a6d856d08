"""What .ci/docs and .ci/terminal share: the fenced blocks of a Markdown page, and the programs and the network that its commands run with."""

import functools
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})\s*([\w-]*)")
COMMENT = re.compile(r"^\s*<!--.*-->\s*$")
FILE = re.compile(r"<!-- file: (\S+) -->")

CARGO = """#!/bin/sh
if [ "$1 ${2:-}" = "run --release" ]; then
    shift 2
    [ "${1:-}" != -- ] || shift
    exec kstore-server "$@"
fi
echo "the check runs no other cargo command: cargo $*" >&2
exit 1
"""


def server():
    """The program whose commands run: KSTORE_SERVER, or the release build."""
    program = pathlib.Path(os.environ.get("KSTORE_SERVER") or ROOT / "target/release/kstore-server").resolve()
    if not os.access(program, os.X_OK):
        sys.exit(f"there is no {program}: build it, or name another by KSTORE_SERVER")
    return program


def make_programs(folder, program):
    """Makes `kstore-server` and a `cargo` that runs nothing else in a folder for PATH."""
    pathlib.Path(folder, "kstore-server").symlink_to(program)
    cargo = pathlib.Path(folder, "cargo")
    cargo.write_text(CARGO)
    cargo.chmod(0o755)


def blocks(page):
    """The fenced blocks of a page: line number, language, the lines of comments right above, text."""
    lines = page.read_text().splitlines()
    found, start = [], None
    for number, line in enumerate(lines, 1):
        fence = FENCE.match(line)
        if start is None and fence:
            indent, marks, language = fence.groups()
            first = number - 1
            while first > 0 and COMMENT.match(lines[first - 1]):
                first -= 1
            above = "\n".join(lines[first:number - 1])
            start, text = number, []
        elif start is not None and line.strip() == marks:
            found.append((start, language, above, "\n".join(text) + "\n"))
            start = None
        elif start is not None:
            text.append(line.removeprefix(indent))
    return found


@functools.cache
def user_namespaces():
    """Whether the kernel lets this user make user namespaces with mounts and processes of their own, and networks for them."""
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return False
    try:
        subprocess.run(["unshare", "--map-root-user", "--mount", "--pid", "--fork", "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def own_network():
    """The command that runs another in its own network namespace; empty if the kernel or a missing program does not allow it."""
    command = ["unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    try:
        subprocess.run([*command, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return command
