#!/usr/bin/env bash
# The main job: sets up what is missing, runs the notebooks, writes figures/ and results/.
#   ./run_all.sh                        the default profile (two CPU cores)
#   ./run_all.sh --profile smoke        minutes, to see that everything works
#   ./run_all.sh --only 02 --force      one notebook, also when it is up to date
#   ./run_all.sh --help                 every option
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
for option in "$@"; do
    if [[ $option == -h || $option == --help ]]; then # says what there is before anything is installed
        PYTHONPATH=lib exec "${PYTHON:-python3}" -m tools.options --help
    fi
done
source ./setup.sh
exec "$python" -m tools.runner "$@"
