# Sourced by the other scripts: makes (once) and reuses the project's own virtual environment in .venv.
#   environment "EXTRAS"   installs the project, editable, with these extras; afterwards $PYTHON runs in it.
# It installs again only when pyproject.toml or the extras have changed.

environment() {
    local extras="$1" stamp want found candidate
    found=""
    for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 python; do
        [ -n "$candidate" ] || continue
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found="$candidate"; break; fi
    done
    if [ -z "$found" ]; then
        echo "Python 3.11 or newer is needed and was not found. Install it, or name it: PYTHON=/path/to/python3 $0" >&2
        exit 2
    fi
    stamp=".venv/installed"
    want="$extras $(cksum < pyproject.toml)"
    if [ ! -x .venv/bin/python ]; then
        echo "Making a virtual environment in .venv (once) ..." >&2
        rm -rf .venv
        "$found" -m venv .venv || { echo "python -m venv failed; on Debian and Ubuntu install python3-venv." >&2; exit 2; }
    fi
    # A larger set of extras serves a smaller one, so that quickstart does not undo what test installed.
    if [ ! -f "$stamp" ] || { [ "$(cat "$stamp")" != "$want" ] && [ "$(cat "$stamp")" != "dev $(cksum < pyproject.toml)" ]; }; then
        echo "Installing rtree-anon${extras:+ [$extras]} and what it needs into .venv (once) ..." >&2
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=23" >&2
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".${extras:+[$extras]}" >&2
        echo "$want" > "$stamp"
    fi
    PYTHON="$PWD/.venv/bin/python"
}
