#!/bin/sh
# Installs Node where it lacks and apt-get may be used, and what checks types and style of the
# JavaScript client. Never fails: without them the tests are skipped, and say so.
. "$(dirname "$0")/packages.sh"
skipped="tests of the JavaScript client will be skipped"
command -v node >/dev/null 2>&1 || installed Node "nodejs npm" "$skipped"

cd "$(dirname "$0")/../clients/js" || exit 0
[ -d node_modules/typescript ] && [ -d node_modules/prettier ] && exit 0
if ! command -v npm >/dev/null 2>&1 ||
  ! timeout 300 npm install --no-audit --no-fund --no-package-lock --loglevel=error </dev/null >/dev/null 2>&1; then
  echo "npm could not install TypeScript: $skipped" >&2
fi
