# Functions shared by the scripts of .ci: sections with durations, and steps checked by their output. Sourced, not executed.

# Root of the repository.
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

passed=0
failed=0
failures=()
_section=
_since=0
_used=0
_durations=()

# section TITLE: ends the previous section, with its duration, and begins a new one.
section() {
    end_section
    _section=$1
    _since=$SECONDS
    processor_seconds _used
    printf '\n== %s\n' "$1"
}

end_section() {
    local used
    if [ -n "$_section" ]; then
        processor_seconds used
        printf -- '-- %s: %d s\n' "$_section" "$((SECONDS - _since))"
        _durations+=("$(printf '%-14s %8d %10d' "$_section" "$((SECONDS - _since))" "$((used - _used))")")
    fi
    _section=
}

# durations: prints a table of the sections so far, with the CPU time of their commands.
durations() {
    end_section
    printf '\n%-14s %8s %10s\n' check seconds processor
    printf '%s\n' "${_durations[@]}"
    printf '%-14s %8d\n' all "$SECONDS"
}

# processor_seconds VARIABLE: CPU time (user and system) of all ended commands, in whole seconds.
processor_seconds() {
    local file user system
    # Not in a subshell, whose own commands would be counted instead.
    file=$(mktemp)
    times >"$file"
    read -r user system < <(tail -n 1 "$file")
    rm -f "$file"
    printf -v "$1" '%d' "$(($(whole_seconds "$user") + $(whole_seconds "$system")))"
}

# whole_seconds 12m3.456s: prints 723.
whole_seconds() {
    local minutes=${1%%m*} rest=${1#*m}
    printf '%d' "$((10#$minutes * 60 + 10#${rest%%[.,]*}))"
}

# step COMMAND PATTERN…: the command must succeed, and each extended regular expression must match a line of its
# output; one that begins with "!" must match none.
step() { _judge 0 "$@"; }

# refused COMMAND PATTERN…: like step, but the command must fail.
refused() { _judge 1 "$@"; }

# run_step COMMAND: runs it within the time of a step, and sets $output to what it printed. A file and not a pipe: a process that the
# command leaves behind would keep a pipe open, and nobody would end the wait for its end.
run_step() {
    local code=0 file
    file=$(mktemp)
    timeout -k 5 "${STEP_SECONDS:-60}" bash -o pipefail -c "$1" >"$file" 2>&1 </dev/null || code=$?
    output=$(<"$file")
    rm -f "$file"
    return "$code"
}

_judge() {
    local refuse=$1 command=$2 output code=0 why= pattern
    shift 2
    run_step "$command" || code=$?
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

# The last command of a script with steps: prints the failures, and fails if there are any.
verdict() {
    end_section
    local failure
    for failure in ${failures[@]+"${failures[@]}"}; do
        printf 'failed: %s\n' "${failure//$'\n'/ ⏎ }"
    done
    printf '%d passed, %d failed\n' "$passed" "$failed"
    [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
}
