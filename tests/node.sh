#!/bin/sh
# Installs Node where it lacks and apt-get may be used, and what checks types and style of the
# JavaScript client. Never fails: without them the tests are skipped, and say so.
without() {
  echo "$1: tests of the JavaScript client will be skipped" >&2
  exit 0
}

apt() {
  timeout 600 $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq \
    -o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 \
    -o DPkg::Lock::Timeout=120 "$@" </dev/null >/dev/null 2>&1
}

if ! command -v node >/dev/null 2>&1; then
  command -v apt-get >/dev/null 2>&1 || without "no Node, and no apt-get to install it"
  if [ "$(id -u)" = 0 ]; then
    as_root=""
  elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
  else
    without "no Node, and no right to install it"
  fi
  echo "installing Node for the tests of the JavaScript client" >&2
  apt install --yes --no-install-recommends nodejs npm ||
    { apt update && apt install --yes --no-install-recommends nodejs npm; } ||
    without "apt-get could not install Node"
fi

cd "$(dirname "$0")/../clients/js" || exit 0
[ -d node_modules/typescript ] && [ -d node_modules/prettier ] && exit 0
command -v npm >/dev/null 2>&1 || without "no npm to install TypeScript"
timeout 300 npm install --no-audit --no-fund --no-package-lock --loglevel=error </dev/null >/dev/null 2>&1 ||
  without "npm could not install TypeScript"
