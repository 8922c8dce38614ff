#!/bin/sh
# Installs Chromium where it lacks and apt-get may be used. Never fails: without a browser its tests
# are skipped, and say so.
[ -n "$FEDSEL_CHROMIUM" ] && exit 0
for name in chromium chromium-browser google-chrome; do
  command -v "$name" >/dev/null 2>&1 && exit 0
done

without() {
  echo "no Chromium ($1): the browser tests will be skipped; install it, or set FEDSEL_CHROMIUM" >&2
  exit 0
}

command -v apt-get >/dev/null 2>&1 || without "and no apt-get to install it"
if [ "$(id -u)" = 0 ]; then
  as_root=""
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
  as_root="sudo -n"
else
  without "and no right to install it"
fi

apt() {
  timeout 600 $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq \
    -o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 \
    -o DPkg::Lock::Timeout=120 "$@" </dev/null >/dev/null 2>&1
}

echo "installing Chromium for the browser tests" >&2
apt install --yes --no-install-recommends chromium && exit 0
# The lists of packages may be old, or not there.
apt update && apt install --yes --no-install-recommends chromium && exit 0
without "apt-get could not install it"
