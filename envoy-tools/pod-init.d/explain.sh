# shellcheck shell=sh disable=SC2034,SC2153,SC2154 # a part of pod-init: its variables are shared
# What the policy does to a new connection, and which of its rules decides. It reads the policy, not the kernel.

explain() {
	judge=$BACKEND into=$TABLE family=4
	[ "$judge" = nft ] || into=$PREFIX
	case $HOST in
	*:*) family=6 ;;
	esac
	chains="$(chains_of nat) $(chains_of filter) $(chains_of mangle)"
	asked=
	[ -z "$DNS" ] || [ "$PORT" != 53 ] || asked=1
	BACKEND=explain
	RULES=$(policy)
	link=outside && ! is_here || link=lo

	uid=none gid=none
	tell "a program here dials $TARGET" output
	[ -z "$asked" ] || tell "a program here asks $TARGET by UDP" dns
	uid=${UIDS%%,*} gid=${GIDS%%,*}
	tell "the proxy, user $uid, dials $TARGET" output
	[ -z "$asked" ] || tell "the proxy, user $uid, asks $TARGET by UDP" dns
	link=outside uid=none gid=none
	first=prerouting
	[ "$MODE" != TPROXY ] || first=intercept
	tell "another host dials port $PORT of this pod" "$first"
}

explain_rule() {
	printf '%s|%s|' "$1" "$2"
	shift 2
	echo "$*"
}

# is_here: the address is the pod's own.
is_here() {
	case $HOST in
	127.* | ::1) return 0 ;;
	esac
	has ip || return 1
	case $(ip route get "$HOST" 2>/dev/null) in
	local*) return 0 ;;
	esac
	return 1
}

# tell CALL CHAIN prints what becomes of a call that begins in a chain.
tell() {
	RULE='no rule is for it' VERDICT=return
	walk "$2" || :
	case $VERDICT in
	return | accept) [ "$2 $link" = 'output outside' ] || [ "$2" = dns ] || walk guard || : ;;
	esac
	case $VERDICT in
	redirect* | tproxy*) VERDICT="sent to port ${VERDICT#* }" ;;
	reset) VERDICT=refused ;;
	*) VERDICT='left alone' ;;
	esac
	printf '%s: %s\n' "$1" "$VERDICT"
	while IFS= read -r line; do printf '  %s\n' "$line"; done <<-RULES
		$RULE
	RULES
}

# walk CHAIN finds the rule that decides, as RULE and VERDICT. Where a chain decides nothing, the way into it has.
walk() {
	while IFS='|' read -r chain verdict match; do
		[ "$chain" = "$1" ] || continue
		# shellcheck disable=SC2086 # pairs of words
		matches $match || continue
		case $verdict in
		mark | save | restore) continue ;;
		esac
		# shellcheck disable=SC2086 # pairs of words
		RULE=$("${judge}_rule" "$chain" "$verdict" $match)
		case $verdict in
		goto*) walk "${verdict#* }" ;;
		*) VERDICT=$verdict ;;
		esac
		return
	done <<-RULES
		$RULES
	RULES
	return 1
}

# matches MATCH VALUE...: the connection is one that a rule is for. It is new, and Envoy did not begin it for a client.
matches() {
	while [ $# -gt 0 ]; do
		case $1 in
		iif | oif) [ "$link" = "$2" ] ;;
		dport) [ "$PORT" -ge "${2%-*}" ] && [ "$PORT" -le "${2#*-}" ] ;;
		uid) [ "$uid" = "$2" ] ;;
		gid) [ "$gid" = "$2" ] ;;
		notgid) [ "$gid" != "$2" ] ;;
		daddr) within "$2" ;;
		notto) is_family "$2" && ! within "$2" ;;
		direct) true ;;
		*) false ;; # saddr, mark, ctmark, transparent, begun, tracked, reply, established, invalid
		esac || return 1
		shift 2
	done
}

is_family() {
	case $family$1 in
	4*:* | 6*.*) return 1 ;;
	esac
}

# within CIDR: the address is one of the network.
within() {
	is_family "$1" || return 1
	bits=${1#*/}
	[ "$bits" != "$1" ] || bits=$((family == 4 ? 32 : 128))
	mine=$(numbers "$HOST") net=$(numbers "${1%%/*}") size=$((family == 4 ? 8 : 16))
	# shellcheck disable=SC2086 # numbers
	set -- $net
	for part in $mine; do
		[ "$bits" -gt 0 ] || return 0
		shut=$((bits >= size ? 0 : size - bits))
		[ $((part >> shut)) -eq $(($1 >> shut)) ] || return 1
		bits=$((bits - size))
		shift
	done
}

# numbers ADDRESS prints its bytes, or its eight groups of IPv6.
numbers() {
	case $1 in
	*:*) ;;
	*)
		IFS=.
		# shellcheck disable=SC2086 # split at the dots
		echo $1
		return
		;;
	esac
	head=${1%%::*} tail=
	[ "$head" = "$1" ] || tail=${1#*::}
	IFS=:
	# shellcheck disable=SC2086 # split at the colons
	set -- $head $tail
	missing=$((8 - $#))
	# shellcheck disable=SC2086 # split at the colons
	set -- $head
	for group; do printf '%d ' "0x$group"; done
	while [ $missing -gt 0 ]; do printf '0 ' && missing=$((missing - 1)); done
	# shellcheck disable=SC2086 # split at the colons
	set -- $tail
	for group; do printf '%d ' "0x$group"; done
	echo
}
