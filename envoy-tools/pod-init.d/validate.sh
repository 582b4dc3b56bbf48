# shellcheck shell=sh disable=SC2034,SC2153,SC2154 # a part of pod-init: its variables are shared
# What settings may be.

BLANK=$(printf ' \t\r\n.') BLANK=${BLANK%.}

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
	'' | -* | ????????????????* | *[!A-Za-z0-9._@-]*) return 1 ;;
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
	*[!0-9a-fA-F:]* | *:::* | *::*::* | :[!:]* | *[!:]:) return 1 ;;
	*::*) gap=1 ;;
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

# trim VARIABLE removes blanks and ends of lines around its value.
trim() {
	eval "trimmed=\$$1"
	trimmed=${trimmed#"${trimmed%%[!"$BLANK"]*}"}
	trimmed=${trimmed%"${trimmed##*[!"$BLANK"]}"}
	eval "$1=\$trimmed"
}

# all VARIABLE: it is *.
all() {
	trim "$1"
	eval "[ \"\$$1\" = '*' ]"
}

# each FLAG VARIABLE CHECK ALLOWED: every item of the variable's list passes the check. Blanks around items are removed; a
# comma at the end is no item. The injector of sidecars has the same rules, and its tests compare both.
each() {
	trim "$2"
	eval "list=\$$2" tidied=
	case $list in
	,* | *,,*) wrong "$1 $list: has an empty item: want $4" ;;
	esac
	old=$IFS IFS=,
	for item in $list; do
		IFS=$old
		trim item
		[ -n "$item" ] || wrong "$1 $list: has an empty item: want $4"
		"$3" "$item" || wrong "$1 $list: $item: want $4"
		tidied=$tidied${tidied:+,}$item
		IFS=,
	done
	IFS=$old
	eval "$2=\$tidied"
}

# groups_of NAME LIST prints the ids of groups.
groups_of() {
	given=$2
	each "$1" given group "names in /etc/group, or ids, 0 to 4294967294"
	old=$IFS IFS=, ids=
	for item in $given; do
		case $item in
		*[!0-9]*) item=$(IFS=$old && id_of /etc/group "$item") ;;
		esac
		ids=$ids${ids:+,}$item
	done
	IFS=$old
	printf '%s' "$ids"
}

group() { user "$1" || [ -n "$(id_of /etc/group "$1")" ]; }

# hexadecimal ADDRESS prints it; where the end of an IPv6 address is written as one of IPv4, as in ::127.0.0.53, by digits of
# its own.
hexadecimal() {
	case $1 in
	*:*.*) four "${1##*:}" ;;
	*) false ;;
	esac || { echo "$1" && return; }
	old=$IFS IFS=.
	# shellcheck disable=SC2086 # split at the dots
	set -- "${1%:*}" ${1##*:}
	IFS=$old
	printf '%s:%x:%x\n' "$1" $(($2 * 256 + $3)) $(($4 * 256 + $5))
}

# resolvers prints the nameservers of /etc/resolv.conf that rules can be made of.
resolvers() {
	[ -r "$RESOLV_CONF" ] || { say "$RESOLV_CONF cannot be read: no resolver is known, and DNS is not captured" && return; }
	while read -r word resolver _; do
		[ "$word" = nameserver ] || continue
		resolver=$(hexadecimal "$resolver")
		if [ "${resolver#*/}" = "$resolver" ] && cidr "$resolver"; then
			echo "$resolver"
		else
			say "$RESOLV_CONF: nameserver $resolver: want an IP address: it is not captured"
		fi
	done <"$RESOLV_CONF"
}

# target splits what is to be explained.
target() {
	case $TARGET in
	\[*\]:*) HOST=${TARGET#?} HOST=${HOST%]:*} ;;
	*:*:*) wrong "explain $TARGET: want [ADDRESS]:PORT for IPv6" ;;
	*:*) HOST=${TARGET%:*} ;;
	*) wrong "explain $TARGET: want ADDRESS:PORT, as 10.0.0.1:80 or [fd00::1]:80" ;;
	esac
	PORT=${TARGET##*:}
	port "$PORT" || wrong "explain $TARGET: $PORT: want a port, 1 to 65535"
	case $HOST in
	*/*) wrong "explain $TARGET: want one address" ;;
	*) cidr "$HOST" || wrong "explain $TARGET: $HOST: want an IP address" ;;
	esac
}

validate() {
	port "$OUT" || wrong "-p $OUT: want a port, 1 to 65535"
	port "$IN" || wrong "-z $IN: want a port, 1 to 65535"
	[ "$IN" != "$OUT" ] || wrong "-z $IN: is also -p: want two ports"
	RESOLVERS=
	if [ -n "$DNS" ]; then
		[ "$IN" != "$DNS_PORT" ] || wrong "-z $IN: is also the port of DNS: want two ports"
		[ "$OUT" != "$DNS_PORT" ] || wrong "-p $OUT: is also the port of DNS: want two ports"
		RESOLVERS=$(resolvers)
		[ -n "$RESOLVERS$DNS_ALL" ] || say "$RESOLV_CONF names no resolver: DNS is not captured"
	elif [ -n "$DNS_ALL" ]; then
		say "--capture-all-dns: nothing is done for it without --redirect-dns"
	fi
	case $MODE in
	REDIRECT | TPROXY) ;;
	*) wrong "-m $MODE: want REDIRECT or TPROXY" ;;
	esac
	number "$MARK" 1 4294967295 || wrong "ISTIO_INBOUND_TPROXY_MARK=$MARK: want a number, 1 to 4294967295"
	number "$ROUTES" 1 252 || wrong "ISTIO_INBOUND_TPROXY_ROUTE_TABLE=$ROUTES: want a number, 1 to 252"
	[ -n "$UIDS" ] || wrong "-u: want the proxy's user, for its own connections would come back to it"
	each -u UIDS user "user ids, 0 to 4294967294"
	each -g GIDS user "group ids, 0 to 4294967294"
	all IN_PORTS || each -b IN_PORTS ports "ports, 1 to 65535, ranges such as 8000-8010, or *"
	each -d IN_SKIP ports "ports, 1 to 65535, or ranges such as 8000-8010"
	each -o OUT_SKIP ports "ports, 1 to 65535, or ranges such as 8000-8010"
	all CIDRS || each -i CIDRS cidr "addresses such as 10.0.0.0/8 or fd00::/8, or *"
	each -x CIDRS_SKIP cidr "addresses such as 10.0.0.0/8 or fd00::/8"
	each -q OUT_PORTS ports "ports, 1 to 65535, or ranges such as 8000-8010"
	each -k INTERFACES interface "names of interfaces"
	each -c INTERFACES_SKIP interface "names of interfaces"
	GROUPS_SKIP=$(groups_of ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE "$GROUPS_SKIP") || exit 64
	[ "$GROUPS_ONLY" = '*' ] || GROUPS_ONLY=$(groups_of ISTIO_OUTBOUND_OWNER_GROUPS "$GROUPS_ONLY") || exit 64
	[ "$DO" != explain ] || target
	[ "$VERIFY" = '' ] || [ "$VERIFY" = auto ] || cidr "$VERIFY" || wrong "--verify=$VERIFY: want an IP address"
	case $BACKEND in
	nft | iptables | '') choose ;;
	*) wrong "--backend $BACKEND: want nft or iptables" ;;
	esac
}

# choose lists the backends of the machine, and takes the first where none is named: nftables, where the kernel has it. A
# run that changes nothing asks for no privilege. What is cleaned is of every backend.
choose() {
	named=$BACKEND BACKENDS=
	if has nft && { [ -n "$DRY" ] || [ "$DO" = explain ] || nft list tables >/dev/null 2>&1; }; then
		BACKENDS=nft
	fi
	if has iptables-restore; then
		BACKENDS=${BACKENDS:+$BACKENDS }iptables
	elif [ -z "$BACKENDS" ] && has nft; then
		BACKENDS=nft # which says what is wrong
	fi
	case "$named $BACKENDS " in
	' '*) BACKEND=${BACKENDS%% *} ;;
	*" $named "*) ;;
	*) BACKENDS="$named $BACKENDS" ;; # which says itself what is wrong
	esac
	[ -n "$BACKEND" ] || fail "neither nft nor iptables-restore is in PATH: install nftables"
}
