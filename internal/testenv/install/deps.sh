#!/bin/sh
# Installs the database servers, and the C compiler for the race detector, that the tests need and do not find: from the system's packages on Debian and Ubuntu, else as
# containers if Docker runs. What cannot be had is said loudly, and the exit code stays 0: the tests of the engines that
# are there shall still run.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../../.."
missing() {
	go run ./internal/testenv/cmd/fencetest --missing
	command -v "$(go env CC)" >/dev/null || echo compiler
}

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
		case $kind in
		pgbouncer | compiler) ;; # the tests start these themselves
		*) docker compose up --detach --wait "$kind" || echo "the container of $kind did not start" >&2 ;;
		esac
	done
	eval "$(sh "$here/containers.sh")"
	want=$(missing)
fi

for kind in $want; do
	echo "!!! $kind IS STILL MISSING. Install it; on Debian and Ubuntu \`make deps\` does, as root or with sudo." >&2
	case $kind in
	postgres | mariadb | mysql)
		echo "!!! Or start Docker, or set FENCEPOST_TEST_$(echo "$kind" | tr a-z A-Z) to the URL of a running server." >&2
		;;
	esac
done
