#!/bin/sh
# Installs Chromium where it lacks and apt-get may be used. Never fails: without a browser its tests
# are skipped, and say so.
[ -n "$FEDSEL_CHROMIUM" ] && exit 0
for name in chromium chromium-browser google-chrome; do
  command -v "$name" >/dev/null 2>&1 && exit 0
done

. "$(dirname "$0")/packages.sh"
installed Chromium chromium "the browser tests will be skipped; install it, or set FEDSEL_CHROMIUM"
