#!/usr/bin/env bash
# Sees to the programs that tests use beside Python: strace (what was synced before an answer left),
# libfaketime (clocks that step), PostgreSQL (databases of programs; tests start a server of their own),
# curl, h2load and Chromium (clients of the port), promtool (alert rules and the dashboard), ip (networks
# of a test's own, which it cuts), and Maven with its Java (Kafka). Installs them where that can be done without asking, as root on
# Debian and its kin; says what is missing otherwise, and never fails: tests that need them skip on a
# laptop and fail in CI.
set -u

missing=()
command -v strace > /dev/null || missing+=(strace)
compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' > /dev/null || missing+=(libfaketime)
command -v initdb > /dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' > /dev/null || missing+=(postgresql)
command -v curl > /dev/null || missing+=(curl)
command -v mvn > /dev/null || missing+=(maven)
command -v h2load > /dev/null || missing+=(nghttp2-client)
command -v chromium > /dev/null || missing+=(chromium)
command -v promtool > /dev/null || missing+=(prometheus)
command -v ip > /dev/null || missing+=(iproute2)
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(uname)" = Linux ] && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
  echo "installing ${missing[*]} for the tests"
  export DEBIAN_FRONTEND=noninteractive
  install=(timeout 300 apt-get install -y -qq --no-install-recommends "${missing[@]}")
  "${install[@]}" > /dev/null 2>&1 \
    || { timeout 120 apt-get update -qq > /dev/null 2>&1 && "${install[@]}" > /dev/null 2>&1; } \
    || echo "could not install ${missing[*]}; the tests that need them will say so" >&2
else
  echo "not installed: ${missing[*]}; tests that need them are skipped (on Debian: apt-get install)" >&2
fi
exit 0
