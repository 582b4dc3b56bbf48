# shellcheck shell=sh disable=SC2034,SC2153,SC2154 # a part of pod-init: its variables are shared
# The rules, once for every backend: rule CHAIN VERDICT [MATCH VALUE]... prints one in the backend's words, see nft.sh.
# Each is of TCP.

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
	rules_for prerouting 'goto outbound' iif "$INTERFACES"
	[ "$MODE" = TPROXY ] || rule prerouting 'goto inbound'

	# Under TPROXY Envoy's connections to the program have the client's address, and the mark by which they are known.
	[ "$MODE" != TPROXY ] || rule output return mark "$MARK"
	# Otherwise Envoy calls the program from these, so that its calls are not taken for self-calls.
	rule output return oif lo saddr 127.0.0.6
	rule output return oif lo saddr ::6
	rules_for output 'goto own' uid "$UIDS"
	rules_for output 'goto own' gid "$GIDS"
	rule output return oif lo
	rule output 'goto outbound'

	if [ -n "$SELF" ]; then
		rule own 'goto inbound' oif lo notto 127.0.0.0/8
		rule own 'goto inbound' oif lo notto ::1
	fi

	inbound inbound "redirect $IN"
	[ "$MODE" != TPROXY ] || transparent

	rules_for outbound return dport "$OUT_SKIP"
	rules_for outbound return daddr "$CIDRS_SKIP"
	if [ "$CIDRS" = '*' ]; then
		rule outbound "redirect $OUT"
	else
		rules_for outbound "redirect $OUT" daddr "$CIDRS"
	fi

	rule guard reset dport "$OUT" direct 1
	rule guard reset dport "$IN" direct 1
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

# transparent delivers inbound packets as they are to Envoy's sockets. Envoy calls the program as the client; the mark of
# that connection brings the program's answers back to Envoy rather than to the client.
transparent() {
	diverted
	rule intercept return established 1 # answers to Envoy's and the program's own calls
	inbound intercept "tproxy $IN"
}

# diverted is for connections that are there.
diverted() {
	rule intercept save iif lo mark "$MARK" # goes on
	rule intercept return iif lo
	rule intercept return mark "$MARK"
	rules_for intercept return iif "$INTERFACES"
	rule intercept 'goto divert' transparent 1
	rule divert mark
	rule divert accept
	rule reroute restore ctmark "$MARK"
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
	nat*) echo inbound outbound own prerouting output ;;
	filter*) echo guard ;;
	mangle*TPROXY) echo divert intercept reroute ;;
	esac
}

rule() { "${BACKEND}_rule" "$@"; }
