# Sets `python` to an interpreter that has everything; source it from the repository root.
#
# It makes .venv from requirements.lock and renews it whenever that, pyproject.toml or this file
# change.
# TEXTPRIV_PYTHON=python uses an environment of your own (conda, a container) as it is.
# PYTHON=python3.12 chooses the interpreter that .venv is made from.

_fail() {
    echo "textpriv: $*" >&2
    exit 2
}

_supported() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

_base_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if _supported "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    _fail "Python 3.11 or newer is needed, got: $(${PYTHON:-python3} --version 2>&1 || true)." \
        "Install one, or name it: PYTHON=/path/to/python3.12 $0"
}

_stamp() { # of what .venv is made from
    "$1" -c 'import hashlib, sys
print(hashlib.sha256(b"".join(open(name, "rb").read() for name in sys.argv[1:])).hexdigest())' \
        requirements.lock pyproject.toml setup.sh
}

_install() {
    local base torch
    torch=$(grep '^torch==' requirements.lock)
    if ! _supported .venv/bin/python; then
        base=$(_base_python)
        echo "textpriv: making .venv with $("$base" --version) (about 2 minutes on a fast line)."
        echo "textpriv: it takes 2.2 GB of disk with PyTorch's CPU build and 5 to 6 GB with the CUDA" \
            "libraries that pip may find for Linux (README.md says how to get the small build)."
        "$base" -m venv --clear .venv
    fi
    echo "textpriv: installing $torch (the largest part)"
    .venv/bin/python -m pip install -q "$torch"
    # Annoy's own set-up compiles for the processor at hand, and its forests, hence some numbers,
    # would depend on that. pip's cache of wheels does not know the difference either.
    echo "textpriv: building $(grep '^annoy==' requirements.lock) for no processor in particular"
    ANNOY_COMPILER_ARGS=-O3,-ffp-contract=off,-std=c++14,-fpermissive,-DANNOYLIB_MULTITHREADED_BUILD \
        .venv/bin/python -m pip install -q --no-deps --no-cache-dir --force-reinstall \
        --no-binary annoy "$(grep '^annoy==' requirements.lock)"
    echo "textpriv: installing the rest of requirements.lock"
    .venv/bin/python -m pip install -q -r requirements.lock
    .venv/bin/python -m pip install -q --no-deps --no-build-isolation -e .
    _stamp .venv/bin/python >.venv/textpriv.stamp
    echo "textpriv: .venv is ready"
}

if [[ -n ${TEXTPRIV_PYTHON:-} ]]; then
    python=$TEXTPRIV_PYTHON
    _supported "$python" || _fail "TEXTPRIV_PYTHON=$python is no Python 3.11 or newer"
    "$python" -c 'import textpriv' || _fail "TEXTPRIV_PYTHON=$python cannot import textpriv;" \
        "in that environment run: python -m pip install --no-deps --no-build-isolation -e ."
else
    python=.venv/bin/python
    if [[ ! -x $python || ! -f .venv/textpriv.stamp ||
        $(<.venv/textpriv.stamp) != $(_stamp "$python") ]]; then
        _install
    fi
fi
