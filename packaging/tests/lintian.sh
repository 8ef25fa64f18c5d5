#!/bin/sh
# Run in a bare Debian by scripts/bare_root.sh: what Debian's own checker of packages says of those of `make deb`. The address of who made
# them is not looked at: it is this machine's, unless DEBEMAIL was set.
set -eu

apt-get update >/dev/null
apt-get install -y --no-install-recommends lintian >/dev/null 2>&1
lintian --allow-root --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog,root-in-contact --show-overrides \
    --fail-on error,warning /debs/*.deb
