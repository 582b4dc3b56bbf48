# shellcheck shell=sh disable=SC2034,SC2153,SC2154 # a part of pod-init: its variables are shared
# What settings may be.

# number VALUE LOW HIGH
number() {
	case $1 in
	'' | *[!0-9]* | 0?* | ???????????*) return 1 ;;
	esac
	[ "$1" -ge "$2" ] && [ "$1" -le "$3" ]
}

port() { number "$1" 1 65535; }

ports() {
	case $1 in
	*-*) port "${1%%-*}" && port "${1#*-}" && [ "${1%%-*}" -le "${1#*-}" ] ;;
	*) port "$1" ;;
	esac
}

user() { number "$1" 0 4294967294; }

interface() {
	case $1 in
	'' | ????????????????* | *[!A-Za-z0-9._@-]*) return 1 ;;
	esac
}

cidr() {
	case $1 in
	*/*) bits=${1#*/} address=${1%%/*} ;;
	*) bits=0 address=$1 ;;
	esac
	case $address in
	*:*) number "$bits" 0 128 && six "$address" ;;
	*) number "$bits" 0 32 && four "$address" ;;
	esac
}

four() {
	case $1 in
	*. | .* | *[!0-9.]*) return 1 ;;
	esac
	old=$IFS IFS=.
	# shellcheck disable=SC2086 # split at the dots
	set -- $1
	IFS=$old
	[ $# -eq 4 ] && number "$1" 0 255 && number "$2" 0 255 && number "$3" 0 255 && number "$4" 0 255
}

six() {
	case $1 in
	*[!0-9a-fA-F:]* | *:::* | *::*::*) return 1 ;;
	*::*) gap=1 ;;
	:* | *:) return 1 ;;
	*) gap=0 ;;
	esac
	old=$IFS IFS=:
	# shellcheck disable=SC2086 # split at the colons
	set -- $1
	IFS=$old
	groups=0
	for group; do
		case $group in
		'') continue ;;
		?????*) return 1 ;;
		esac
		groups=$((groups + 1))
	done
	[ $((groups + gap)) -eq 8 ] || { [ $gap -eq 1 ] && [ $groups -lt 8 ]; }
}

# each FLAG CHECK ALLOWED LIST: every item of the list passes the check.
each() {
	case $4 in
	,* | *, | *,,*) wrong "$1 $4: has an empty item: want $3" ;;
	esac
	old=$IFS IFS=,
	for item in $4; do
		IFS=$old
		"$2" "$item" || wrong "$1 $4: $item: want $3"
		IFS=,
	done
	IFS=$old
}

validate() {
	port "$OUT" || wrong "-p $OUT: want a port, 1 to 65535"
	port "$IN" || wrong "-z $IN: want a port, 1 to 65535"
	[ "$IN" != "$OUT" ] || wrong "-z $IN: is also -p: want two ports"
	case $MODE in
	REDIRECT | TPROXY) ;;
	*) wrong "-m $MODE: want REDIRECT or TPROXY" ;;
	esac
	number "$MARK" 1 4294967295 || wrong "ISTIO_INBOUND_TPROXY_MARK=$MARK: want a number, 1 to 4294967295"
	number "$ROUTES" 1 252 || wrong "ISTIO_INBOUND_TPROXY_ROUTE_TABLE=$ROUTES: want a number, 1 to 252"
	[ -n "$UIDS" ] || wrong "-u: want the proxy's user, for its own connections would come back to it"
	each -u user "user ids, 0 to 4294967294" "$UIDS"
	each -g user "group ids, 0 to 4294967294" "$GIDS"
	[ "$IN_PORTS" = '*' ] || each -b ports "ports, 1 to 65535, ranges such as 8000-8010, or *" "$IN_PORTS"
	each -d ports "ports, 1 to 65535, or ranges such as 8000-8010" "$IN_SKIP"
	each -o ports "ports, 1 to 65535, or ranges such as 8000-8010" "$OUT_SKIP"
	[ "$CIDRS" = '*' ] || each -i cidr "addresses such as 10.0.0.0/8 or fd00::/8, or *" "$CIDRS"
	each -x cidr "addresses such as 10.0.0.0/8 or fd00::/8" "$CIDRS_SKIP"
	each -k interface "names of interfaces" "$INTERFACES"
	[ "$VERIFY" = '' ] || [ "$VERIFY" = auto ] || cidr "$VERIFY" || wrong "--verify=$VERIFY: want an IP address"
	case $BACKEND in
	nft | iptables) ;;
	'') choose ;;
	*) wrong "--backend $BACKEND: want nft or iptables" ;;
	esac
	BACKENDS=${BACKENDS:-$BACKEND}
}

# choose takes nftables where the kernel has it, too; a dry run asks for no privilege. What is cleaned is of both.
choose() {
	BACKENDS=
	if has nft && { [ -n "$DRY" ] || nft list tables >/dev/null 2>&1; }; then
		BACKENDS=nft
	fi
	if has iptables-restore; then
		BACKENDS="$BACKENDS iptables"
	elif [ -z "$BACKENDS" ] && has nft; then
		BACKENDS=nft # which says what is wrong
	fi
	for BACKEND in $BACKENDS; do return; done
	fail "neither nft nor iptables-restore is in PATH: install nftables"
}
