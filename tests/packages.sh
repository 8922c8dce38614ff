# Sourced by browser.sh, node.sh and postgres.sh: install Debian packages where they lack and may be
# installed. Never fails: what needs them is skipped, and says so.

# installed WHAT PACKAGES CONSEQUENCE: ends the script where it cannot be had
installed() {
  what=$1 packages=$2 consequence=$3
  without() {
    echo "no $what ($1): $consequence" >&2
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
  echo "installing $what for the tests" >&2
  apt install --yes --no-install-recommends $packages && return 0
  # The lists of packages may be old, or not there.
  apt update && apt install --yes --no-install-recommends $packages && return 0
  without "apt-get could not install it"
}

apt() {
  timeout 600 $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq \
    -o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 \
    -o DPkg::Lock::Timeout=120 "$@" </dev/null >/dev/null 2>&1
}
