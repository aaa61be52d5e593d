#!/bin/sh
# Installs one program from the system's own packages, without leaving a server of the system behind, running or
# waiting for the next boot. Needs root. $1 is postgres, mariadb, pgbouncer or compiler.
set -eu
export DEBIAN_FRONTEND=noninteractive

case $1 in
postgres) packages="postgresql" ;;
# The core packages hold the programs and no service.
mariadb) packages="mariadb-server-core mariadb-client-core" ;;
pgbouncer) packages="pgbouncer" ;;
compiler) packages="gcc libc6-dev" ;;
*)
	echo "unknown program: $1" >&2
	exit 64
	;;
esac

policy=/usr/sbin/policy-rc.d
clusters=/etc/postgresql-common/createcluster.d/fencepost.conf
made=
cleanup() { [ -z "$made" ] || rm -f $made; }
trap cleanup EXIT
trap 'exit 1' HUP INT TERM
if [ ! -e $policy ]; then
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod 755 $policy
	made="$policy"
fi
if [ "$1" = postgres ] && [ ! -e $clusters ]; then
	# postgresql-common keeps this directory; it may not exist before the first installation.
	mkdir -p "$(dirname $clusters)"
	echo "create_main_cluster = false" >$clusters
	made="$made $clusters"
fi

apt-get -q update
# shellcheck disable=SC2086
apt-get -q install -y --no-install-recommends $packages

# Its package has no way to ask for the program without the service at the next boot.
[ "$1" != pgbouncer ] || update-rc.d pgbouncer disable
