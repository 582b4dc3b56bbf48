# shellcheck shell=sh disable=SC2034,SC2153,SC2154 # a part of pod-init: its variables are shared
# Verification: dial, and see whether Envoy's port is reached.

# listening PORT: somebody listens on it.
listening() {
	wanted=$(printf ':%04X' "$1")
	for file in /proc/net/tcp /proc/net/tcp6; do
		[ -r $file ] || continue
		while read -r _ bound _ state _; do
			[ "$state" != 0A ] || [ "${bound#*"$wanted"}" = "$bound" ] || return 0
		done <$file
	done
	return 1
}

# probe ADDRESS dials it, where there is a route, and says whether Envoy's port was reached. While nobody listens there,
# the probe does; else it is enough that somebody answers for an address that nobody has.
probe() {
	ip route get "$1" >/dev/null 2>&1 || { say "verify: no route to $1: not dialled" && return 0; }
	if listening "$OUT"; then
		busybox nc -w 2 "$1" 61337 </dev/null >/dev/null 2>&1 || return 1
	else
		for _ in 1 2 3 4 5 6 7 8 9; do
			busybox sleep 0.2
			! busybox nc -w 1 "$1" 61337 </dev/null || break
		done >/dev/null 2>&1 &
		busybox timeout 4 busybox nc -l -p "$OUT" </dev/null >/dev/null 2>&1 || return 1
	fi
	PROBED="$PROBED $1"
}

verify() {
	has busybox || { say "--verify: no busybox in PATH, which dials and listens: install it" && return 1; }
	while read -r key own _; do
		[ "$key" != Uid: ] || break
	done </proc/self/status
	case ",$UIDS," in
	*",$own,"*) say "--verify: user $own is not redirected (-u $UIDS): run pod-init as another" && return 1 ;;
	esac
	[ -n "$CIDRS" ] || { say "verify: no address is redirected (-i is empty): not dialled" && return 0; }
	PROBED=
	for address in $(probes); do
		probe "$address" || { say "--verify: $address does not lead to port $OUT" && return 1; }
	done
	[ -z "$PROBED" ] || say "verified: dialled$PROBED, reached port $OUT"
}

probes() {
	case $VERIFY in
	auto) echo 192.0.2.1 && { ! six_is_on || echo 2001:db8::1; } ;;
	*) echo "$VERIFY" ;;
	esac
}
