# Stops the servers of a test process that has ended, however it ended.
#
# $1 is the directory that holds their data. Standard input is a pipe from the test process. Lines: "watch PID SIGNAL" before
# a server starts, "gone PID" after it was reaped. End of file means that the test process is no more.
trap '' HUP INT TERM
watched=
while read -r word pid signal; do
	case $word in
	watch) watched="$watched $pid:$signal" ;;
	gone)
		left=
		for entry in $watched; do
			[ "${entry%:*}" = "$pid" ] || left="$left $entry"
		done
		watched=$left
		;;
	esac
done
for entry in $watched; do
	kill -"${entry#*:}" "${entry%:*}" 2>/dev/null
	kill -CONT "${entry%:*}" 2>/dev/null
done
# A killed server still writes for a moment; its files must not come back after the removal.
for entry in $watched; do
	tries=0
	while kill -0 "${entry%:*}" 2>/dev/null; do
		tries=$((tries + 1))
		[ $tries -lt 100 ] || kill -KILL "${entry%:*}" 2>/dev/null
		[ $tries -lt 200 ] || break
		sleep 0.1
	done
done
rm -rf "$1"
