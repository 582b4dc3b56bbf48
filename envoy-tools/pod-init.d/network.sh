# shellcheck shell=sh disable=SC2034,SC2153,SC2154 # a part of pod-init: its variables are shared
# What the rules need beside them: addresses and routes.

six_is_on() { [ -r /proc/net/if_inet6 ] && read -r _ </proc/net/if_inet6; }

# six_source reports whether lo has ::6, from which Envoy calls programs over IPv6. 127.0.0.6 needs no such thing.
six_source() {
	while read -r address _; do
		[ "$address" != 00000000000000000000000000000006 ] || return 0
	done </proc/net/if_inet6
	return 1
}

# routed FAMILY: marked packets are delivered here, whoever's address they have.
routed() {
	found=$(ip "-$1" rule show) || fail "ip -$1 rule show: failed, as it says above: nothing is changed"
	case $found in
	*"fwmark $(printf '0x%x' "$MARK") lookup $ROUTES"*) return 0 ;;
	esac
	return 1
}

# change COMMAND UNDO runs a command of ip, and remembers how to take it back.
change() {
	eval "ip $1" || fail "ip $1: failed, as it says above: nothing is changed"
	UNDO="ip $2; $UNDO"
	CHANGED=1
}

network_on() {
	if six_is_on && ! six_source; then
		has ip || fail "no ip in PATH: install iproute2, for Envoy calls programs from ::6, which lo does not have"
		change "-6 addr add ::6/128 dev lo" "-6 addr del ::6/128 dev lo"
	fi
	[ "$MODE" = TPROXY ] || { network_off_route && return; }
	has ip || fail "no ip in PATH: install iproute2, for -m TPROXY needs a route"
	for f in $(iptables_families); do
		routed "$f" && continue
		change "-$f route replace local default dev lo table $ROUTES" "-$f route del local default dev lo table $ROUTES"
		change "-$f rule add fwmark $MARK lookup $ROUTES" "-$f rule del fwmark $MARK lookup $ROUTES"
	done
}

network_off_route() {
	has ip || return 0
	for f in $(iptables_families); do
		routed "$f" || continue
		change "-$f rule del fwmark $MARK lookup $ROUTES" "-$f rule add fwmark $MARK lookup $ROUTES"
		change "-$f route del local default dev lo table $ROUTES" "-$f route replace local default dev lo table $ROUTES"
	done
}

network_off() {
	network_off_route
	if six_is_on && six_source && has ip; then
		change "-6 addr del ::6/128 dev lo" "-6 addr add ::6/128 dev lo"
	fi
}
