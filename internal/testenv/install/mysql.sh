#!/bin/sh
# Unpacks MySQL's server into a folder of its own, beside whatever the system has; needs no root.
#
# Debian's stable suite has no MySQL, its unstable suite has, and it needs newer libraries than the system's. So an apt
# configuration of its own (nothing installed, unstable suite, the mirror that the machine uses already, its signature checked with
# the machine's keyring) fetches the server with every library down to the C library, and the tests start it through the
# dynamic linker that came along. Ubuntu has MySQL in its own suites and goes the same way: there its package
# excludes MariaDB's.
set -eu

if [ $# -gt 0 ]; then
	home=$1
elif [ "$(id -u)" = 0 ]; then
	# The account that runs the tests' servers cannot enter root's home.
	home=/var/cache/fencepost/mysql-9
else
	home=${XDG_CACHE_HOME:-$HOME/.cache}/fencepost/mysql-9
fi
[ ! -e "$home" ] || {
	echo "$home exists already; remove it to fetch MySQL anew"
	exit 0
}

work=$(mktemp -d)
root=$home.new.$$
trap 'rm -rf "$work" "$root"' EXIT
trap 'exit 1' HUP INT TERM
chmod 755 "$work" # apt fetches as a user of its own
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/sources" "$work/none.d" "$root"
: >"$work/status"
: >"$work/none"

. /etc/os-release
case $ID in
debian)
	suites=sid components=main keyring=/usr/share/keyrings/debian-archive-keyring.gpg
	;;
ubuntu)
	suites="$VERSION_CODENAME $VERSION_CODENAME-updates" components="main universe"
	keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg
	;;
*)
	echo "MySQL can be fetched on Debian and Ubuntu only, this is $ID" >&2
	exit 1
	;;
esac
[ -r "$keyring" ] || {
	echo "$keyring is missing: install the archive keyring's package" >&2
	exit 1
}

private() {
	program=$1
	shift
	"$program" -q -o Dir::State="$work" -o Dir::State::lists="$work/lists" -o Dir::State::status="$work/status" \
		-o Dir::Cache="$work/cache" -o Dir::Etc::sourcelist="$work/none" -o Dir::Etc::sourceparts="$work/sources" \
		-o Dir::Etc::preferences="$work/none" -o Dir::Etc::preferencesparts="$work/none.d" \
		-o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
		-o APT::Update::Error-Mode=any "$@"
}

# Every source that the machine reads its own release from, whatever the format of its file.
mirrors=$(apt-get update --print-uris | sed -n "s#^'\([^']*\)/dists/$VERSION_CODENAME/InRelease'.*#\1#p" | sort -u)
[ -n "$mirrors" ] || {
	echo "apt has no source for $VERSION_CODENAME on this machine" >&2
	exit 1
}
package=
for mirror in $mirrors; do
	cat >"$work/sources/private.sources" <<-END
		Types: deb
		URIs: $mirror
		Suites: $suites
		Components: $components
		Signed-By: $keyring
	END
	if private apt-get update; then
		package=$(private apt-cache pkgnames mysql-server-core | grep -xE 'mysql-server-core(-[0-9.]+)?' | sort -V | tail -n 1)
		[ -z "$package" ] || break
	fi
done
[ -n "$package" ] || {
	echo "no configured mirror offers mysql-server-core in $suites, signed by a key in $keyring." >&2
	echo "apt's error above says why; about a missing public key: upgrade the package that holds this keyring." >&2
	exit 1
}

private apt-get install -y --download-only --no-install-recommends "$package"
for deb in "$work"/cache/archives/*.deb; do
	case ${deb##*/} in
	perl* | libperl*) ;; # for scripts that no test runs
	*) dpkg-deb -x "$deb" "$root" ;;
	esac
done
rm -rf "$root/usr/share/doc" "$root/usr/share/man"

linker=$(echo "$root"/usr/lib/*/ld-linux*.so.*)
"$linker" --library-path "$(dirname "$linker"):$root/usr/lib/mysql/private" "$root/usr/sbin/mysqld" --no-defaults --version
# In place only when complete: the tests take what they find there.
chmod -R a+rX "$root"
mv "$root" "$home"
echo "MySQL is in $home"
