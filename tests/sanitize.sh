#!/bin/sh
# The tests that run the kernels, once with them compiled for AddressSanitizer and
# UndefinedBehaviorSanitizer: a copy of the sources, so that the installed module stays as it is.
set -eu
python=$1
cd "$(dirname "$0")/.."
copy=build/sanitized
rm -rf "$copy"
mkdir -p "$copy"
cp -r src/fedsel "$copy/fedsel"
rm -f "$copy"/fedsel/_internal/_native*.so
CFLAGS="-g -O1 -fno-omit-frame-pointer -fno-sanitize-recover=all -fsanitize=address,undefined" \
    LDFLAGS="-fsanitize=address,undefined" "$python" hatch_build.py "$copy"
# Python itself leaks a little by design; what is looked for is a read or a write elsewhere.
export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1
preload="$(${CC:-gcc} -print-file-name=libasan.so) $(${CC:-gcc} -print-file-name=libubsan.so)"
# shellcheck disable=SC2086 # several files, or options of pytest
LD_PRELOAD="$preload" PYTHONPATH="$copy" PYTHONMALLOC=malloc "$python" -m pytest -q \
    --rootdir=. -p no:cacheprovider -o addopts= -o pythonpath= --import-mode=importlib \
    ${SANITIZED_TESTS:-tests/sampling tests/test_golden.py tests/simulation tests/solutions/test_solution.py tests/mechanisms/test_one_symbol.py}
