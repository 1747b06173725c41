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
        echo "Installing rtree-anon${extras:+ [$extras]} and what it needs into .venv (once, a minute or more) ..." >&2
        : > .venv/install.log
        pip_install --upgrade "pip>=23"
        pip_install --editable ".${extras:+[$extras]}"
        echo "$want" > "$stamp"
    fi
    PYTHON="$PWD/.venv/bin/python"
}

# pip, quiet unless it fails: its warnings would be the first thing that a newcomer sees.
pip_install() {
    if ! .venv/bin/python -m pip install --disable-pip-version-check "$@" >> .venv/install.log 2>&1; then
        tail -n 20 .venv/install.log >&2
        echo "Installing failed (see above; the whole story is in .venv/install.log). Is the package index reachable?" >&2
        exit 2
    fi
}
