#!/bin/sh
# Installs PostgreSQL where it lacks and apt-get may be used. Never fails: without it its tests are
# skipped, and say so. The tests start a server of their own.
command -v postgres >/dev/null 2>&1 && exit 0
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 && exit 0

. "$(dirname "$0")/packages.sh"
installed PostgreSQL postgresql "the tests of the service's second store will be skipped"
