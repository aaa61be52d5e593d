#!/bin/sh
# Installs the database servers that the tests need and do not find: from the system's packages on Debian and Ubuntu, else as
# containers if Docker runs. What cannot be had is said loudly, and the exit code stays 0: the tests of the engines that
# are there shall still run.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../../.."
missing() { go run ./internal/testenv/cmd/fencetest --missing; }

want=$(missing)
[ -n "$want" ] || exit 0
echo "not installed yet:" $want

if command -v apt-get >/dev/null; then
	root=no
	if [ "$(id -u)" = 0 ]; then
		root=
	elif sudo -n true 2>/dev/null; then
		root="sudo -n"
	elif [ -t 0 ] && command -v sudo >/dev/null; then
		root=sudo
	fi
	for kind in $want; do
		# Each on its own: one that fails must not take the others with it. MySQL needs no rights.
		case $kind in
		mysql) sh "$here/mysql.sh" </dev/null || echo "MySQL was not installed" >&2 ;;
		*) [ "$root" = no ] || $root sh "$here/packages.sh" "$kind" </dev/null || echo "$kind was not installed" >&2 ;;
		esac
	done
	want=$(missing)
fi

if [ -n "$want" ] && docker info >/dev/null 2>&1; then
	for kind in $want; do
		# The tests start a pooler themselves: there is no container of it.
		[ "$kind" = pgbouncer ] || docker compose up --detach --wait "$kind" || echo "the container of $kind did not start" >&2
	done
	eval "$(sh "$here/containers.sh")"
	want=$(missing)
fi

for kind in $want; do
	echo "!!! $kind IS STILL MISSING. Install it (Debian and Ubuntu: run this as root or with sudo), or start Docker, or set" \
		"FENCEPOST_TEST_$(echo "$kind" | tr a-z A-Z) to the URL of a running server." >&2
done
