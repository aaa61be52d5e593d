#!/bin/sh
# Prints shell commands that point the tests at the containers of compose.yaml that run, if there are any.
cd "$(dirname "$0")/../../.." || exit
command -v docker >/dev/null || exit 0
for kind in $(docker compose ps --status running --services 2>/dev/null); do
	case $kind in
	postgres) echo "export FENCEPOST_TEST_POSTGRES='postgres://postgres:fencepost@127.0.0.1:55432/postgres?sslmode=disable'" ;;
	mariadb) echo "export FENCEPOST_TEST_MARIADB='mariadb://root:fencepost@127.0.0.1:53306/mysql'" ;;
	mysql) echo "export FENCEPOST_TEST_MYSQL='mysql://root:fencepost@127.0.0.1:53307/mysql'" ;;
	esac
done
