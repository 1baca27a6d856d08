# What the scripts of .ci share: sections with durations, and steps that are judged by their output. Sourced, never run.

# The repository.
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

passed=0
failed=0
failures=()
_section=
_since=0

# section TITLE: ends the section before, with its duration, and opens the next.
section() {
    end_section
    _section=$1
    _since=$SECONDS
    printf '\n== %s\n' "$1"
}

end_section() {
    if [ -n "$_section" ]; then
        printf -- '-- %s: %d s\n' "$_section" "$((SECONDS - _since))"
    fi
    _section=
}

# step COMMAND PATTERN…: the command must succeed, and each extended regular expression must match a line of what it
# prints; one that begins with "!" must match none.
step() { _judge 0 "$@"; }

# refused COMMAND PATTERN…: the same, but the command must fail.
refused() { _judge 1 "$@"; }

_judge() {
    local refuse=$1 command=$2 output code=0 why= pattern
    shift 2
    output=$(timeout -k 5 "${STEP_SECONDS:-60}" bash -o pipefail -c "$command" 2>&1 </dev/null) || code=$?
    if [ "$refuse" = 0 ] && [ "$code" != 0 ]; then
        why="exit code $code"
    elif [ "$refuse" = 1 ] && { [ "$code" = 0 ] || [ "$code" -ge 124 ]; }; then
        why="exit code $code, although it should have been refused"
    fi
    for pattern in "$@"; do
        if [ "${pattern:0:1}" = "!" ]; then
            if grep -Eq -- "${pattern:1}" <<<"$output"; then why="${why:+$why; }a line matches  ${pattern:1}"; fi
        elif ! grep -Eq -- "$pattern" <<<"$output"; then
            why="${why:+$why; }no line matches  $pattern"
        fi
    done
    if [ -z "$why" ]; then
        passed=$((passed + 1))
        printf 'ok    %s\n' "${command//$'\n'/ ⏎ }"
    else
        failed=$((failed + 1))
        failures+=("$command")
        printf 'FAIL  %s\n      %s\n' "${command//$'\n'/ ⏎ }" "$why"
        printf '%s\n' "$output" | sed -n '1,60s/^/      | /p'
    fi
}

# The last line of a script that ran steps. Fails if a step failed.
verdict() {
    end_section
    local failure
    for failure in ${failures[@]+"${failures[@]}"}; do
        printf 'failed: %s\n' "${failure//$'\n'/ ⏎ }"
    done
    printf '%d passed, %d failed\n' "$passed" "$failed"
    [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
}
