# shellcheck shell=sh disable=SC2034,SC2153,SC2154 # a part of pod-init: its variables are shared
# The rules, once for every backend: rule CHAIN VERDICT [MATCH VALUE]... prints one in the backend's words, see nft.sh.
# Each is of TCP, those of the chains dns* are of UDP.

# rules_for CHAIN VERDICT MATCH LIST: a rule for each item.
rules_for() {
	old=$IFS IFS=,
	for item in $4; do
		IFS=$old
		rule "$1" "$2" "$3" "$item"
		IFS=,
	done
	IFS=$old
}

policy() {
	[ -z "$INVALID" ] || rule invalid drop invalid 1
	rules_for prerouting return iif "$INTERFACES_SKIP"
	rules_for output return oif "$INTERFACES_SKIP"
	rules_for prerouting 'goto outbound' iif "$INTERFACES"
	# A connection that was open before the rules keeps its way; see late.
	[ "$MODE" = TPROXY ] || rule prerouting return begun 1
	[ "$MODE" = TPROXY ] || rule prerouting 'goto inbound'
	rule output return begun 1

	# Under TPROXY Envoy's connections to the program have the client's address, and the mark by which they are known.
	[ "$MODE" != TPROXY ] || rule output return mark "$MARK"
	# Otherwise Envoy calls the program from these, so that its calls are not taken for self-calls.
	rule output return oif lo saddr 127.0.0.6
	rule output return oif lo saddr ::6
	rules_for output 'goto own' uid "$UIDS"
	rules_for output 'goto own' gid "$GIDS"
	rules_for output return gid "$GROUPS_SKIP"
	[ "$GROUPS_ONLY" = '*' ] || only_groups output return
	[ -z "$DNS" ] || to_resolvers output "redirect $DNS_PORT" daddr dport 53
	inner=$(inner_of "$CIDRS")
	[ -z "$inner" ] || rule output return daddr 127.0.0.1
	rules_for output 'goto outbound' daddr "$inner"
	rule output return oif lo
	rule output 'goto outbound'
	[ -z "$DNS" ] || dns

	if [ -n "$SELF" ]; then
		[ -z "$DNS" ] || [ -z "$RESOLVERS$DNS_ALL" ] || rule own return dport 53 # a resolver in the pod is asked, not proxied
		rule own 'goto inbound' oif lo notto 127.0.0.0/8
		rule own 'goto inbound' oif lo notto ::1
	fi

	inbound inbound "redirect $IN"
	[ "$MODE" != TPROXY ] || transparent

	rules_for outbound return dport "$OUT_SKIP"
	rules_for outbound return daddr "$CIDRS_SKIP"
	rules_for outbound "redirect $OUT" dport "$OUT_PORTS"
	if [ "$CIDRS" = '*' ]; then
		rule outbound "redirect $OUT"
	else
		rules_for outbound "redirect $OUT" daddr "$CIDRS"
	fi

	rule guard reset dport "$OUT" direct 1
	rule guard reset dport "$IN" direct 1
	[ -z "$DNS" ] || rule guard reset dport "$DNS_PORT" direct 1
	# After the resets: the kernel has confirmed a connection within the pod before it comes in.
	[ "$MODE" = TPROXY ] || late
}

# inner_of CIDRS prints those of the loopback interface: whose calls are redirected within the pod as well.
inner_of() {
	old=$IFS IFS=, found=
	for item in $1; do
		case $item in
		127.*) found=$found${found:+,}$item ;;
		esac
	done
	IFS=$old
	printf '%s' "$found"
}

# dns sends what programs ask resolvers by UDP to Envoy, which asks them itself what it does not know. A program's question
# and Envoy's may come from one port, soon after another: tracked together, Envoy's would be redirected like the program's.
# So programs' are in zone 2 of the connection tracking, and Envoy's in zone 1.
dns() {
	rules_for dns return oif "$INTERFACES_SKIP"
	rules_for dns return uid "$UIDS"
	rules_for dns return gid "$GIDS"
	rules_for dns return gid "$GROUPS_SKIP"
	[ "$GROUPS_ONLY" = '*' ] || only_groups dns return
	to_resolvers dns "redirect $DNS_PORT" daddr dport 53

	own_zones uid "$UIDS"
	own_zones gid "$GIDS"
	own_zones gid "$GROUPS_SKIP"
	[ "$GROUPS_ONLY" = '*' ] || only_groups dnsown 'zone 1' dport 53
	to_resolvers dnsown 'zone 2' daddr dport 53
	to_resolvers dnsback 'zone 1' saddr sport 53
}

# own_zones MATCH LIST: what the proxy asks, or a program that is left alone, and what the proxy answers.
own_zones() {
	old=$IFS IFS=,
	for item in $2; do
		IFS=$old
		rule dnsown 'zone 1' dport 53 "$1" "$item"
		rule dnsown 'zone 2' sport "$DNS_PORT" "$1" "$item"
		IFS=,
	done
	IFS=$old
}

# to_resolvers CHAIN VERDICT SIDE MATCH PORT: a rule for each resolver, by its address as SIDE, and for its port; one rule
# where all DNS counts.
to_resolvers() {
	if [ -n "$DNS_ALL" ]; then
		rule "$1" "$2" "$4" "$5"
		return
	fi
	for resolver in $RESOLVERS; do rule "$1" "$2" "$4" "$5" "$3" "$resolver"; done
}

# only_groups CHAIN VERDICT [MATCH VALUE]: for programs of none of the groups. One rule with a match for each.
only_groups() {
	old=$IFS IFS=,
	for item in $GROUPS_ONLY; do set -- "$@" notgid "$item"; done
	IFS=$old
	rule "$@"
}

# inbound CHAIN VERDICT: the ports that count.
inbound() {
	rule "$1" return dport "$OUT"
	rule "$1" return dport "$IN"
	[ "$IN_PORTS" != '*' ] || rule "$1" return dport 22
	rules_for "$1" return dport "$IN_SKIP"
	if [ "$IN_PORTS" = '*' ]; then
		rule "$1" "$2"
	else
		rules_for "$1" "$2" dport "$IN_PORTS"
	fi
}

# late drops what begins a connection that the kernel takes for one which was open before the rules: a client could send
# a packet of such a connection first, and then begin a new one with the same ports, past Envoy. Ten seconds later the kernel has
# forgotten the other one.
late() {
	rule guard 'goto late' tracked 1
	rule late return iif lo
	rules_for late return iif "$INTERFACES_SKIP"
	rules_for late return iif "$INTERFACES"
	inbound late drop
}

# transparent delivers inbound packets as they are to Envoy's sockets. Envoy calls the program as the client; the mark of
# that connection brings the program's answers back to Envoy rather than to the client. If Envoy takes a port that the
# client takes too, the kernel cannot tell their connections apart: so the program sees another port, below those that
# the kernel lends, and what Envoy sends to the program is in zone 3 of the connection tracking.
transparent() {
	diverted
	rules_for intercept return iif "$INTERFACES_SKIP"
	rule intercept return reply 1 # answers to Envoy's and the program's own calls
	inbound intercept "tproxy $IN"
	rule onward 'source 1024-32767' oif lo mark "$MARK"
}

# diverted is for connections that are there. A packet that begins one is none of them, whatever the kernel takes it
# for: for ten seconds after a reset by Envoy a new connection with the same ports counts as the old one, and Envoy's
# socket outlives a connection that Envoy has closed.
diverted() {
	rule intercept save iif lo mark "$MARK" # goes on
	rule intercept return iif lo
	rule intercept return mark "$MARK"
	rules_for intercept return iif "$INTERFACES"
	rule intercept 'goto divert' begun 1 transparent 1
	rule divert mark
	rule divert accept
	rule reroute restore ctmark "$MARK"
	rule apart 'origin 3' oif lo mark "$MARK"
}

# kept redirects nothing, but keeps address translation at work for the connections that are redirected already.
kept() {
	[ "$MODE" != TPROXY ] || diverted
	rule guard accept established 1
}

# none is no policy: nothing of ours is there.
none() { :; }

# chains_of TABLE prints the chains of a table, in iptables' words.
chains_of() {
	case $1$POLICY$MODE in
	*none*) ;;
	natkept*) echo prerouting output ;;
	natpolicyTPROXY) echo ${DNS:+dns} inbound outbound own prerouting output onward ;;
	nat*) echo ${DNS:+dns} inbound outbound own prerouting output ;;
	filterpolicyREDIRECT) echo late guard ;;
	filter*) echo guard ;;
	mangle*TPROXY) echo ${INVALID:+invalid} divert intercept reroute ;;
	mangle*) [ -z "$INVALID" ] || echo invalid ;;
	rawkeptTPROXY) echo apart ;;
	rawpolicyTPROXY) echo ${DNS:+dnsback dnsown} apart ;;
	rawpolicy*) [ -z "$DNS" ] || echo dnsback dnsown ;;
	esac
}

# protocol_of CHAIN prints what its rules are for.
protocol_of() {
	case $1 in
	dns*) echo udp ;;
	*) echo tcp ;;
	esac
}

rule() { "${BACKEND}_rule" "$@"; }
