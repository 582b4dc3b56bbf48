# shellcheck shell=sh disable=SC2034,SC2153,SC2154 # a part of pod-init: its variables are shared
# The backend nft: one table, applied in one transaction.

TABLE='inet pilotlight'
NEXT='inet pilotlight_next'

nft_rule() {
	chain=$1 verdict=$2 protocol=$(protocol_of "$1")
	match="meta l4proto $protocol"
	shift 2
	while [ $# -gt 0 ]; do
		case $1 in
		iif | oif) match="$match ${1}name \"$2\"" ;;
		dport | sport) match="$match $protocol $1 $2" ;;
		uid | gid) match="$match meta sk$1 $2" ;;
		notgid) match="$match meta skgid != $2" ;;
		invalid) match="$match ct state invalid" ;;
		mark) match="$match meta mark $2" ;;
		ctmark) match="$match ct mark $2" ;;
		transparent) match="$match socket transparent $2" ;;
		direct) match="$match ct state new ct status & dnat == 0" ;;
		established) match="$match ct state established" ;;
		reply) match="$match ct direction reply" ;;
		tracked) match="$match tcp flags & (fin | syn | rst | ack) == syn ct status & (confirmed | dnat) == confirmed" ;;
		begun) match="$match tcp flags & (fin | syn | rst | ack) != syn" ;;
		saddr | daddr | notto)
			field=$1
			[ "$1" != notto ] || field='daddr !='
			case $2 in
			*:*) match="$match ip6 $field $2" ;;
			*) match="$match ip $field $2" ;;
			esac
			;;
		esac
		shift 2
	done
	case $verdict in
	redirect*) verdict="redirect to :${verdict#* }" ;;
	tproxy*) verdict="tproxy to :${verdict#* } meta mark set $MARK accept" ;;
	zone*) verdict="ct zone set ${verdict#* } return" ;;
	origin*) verdict="ct original zone set ${verdict#* }" ;;
	source*) verdict="snat to :${verdict#* }" ;;
	mark) verdict="meta mark set $MARK" ;;
	save) verdict='ct mark set meta mark' ;;
	restore) verdict='meta mark set ct mark' ;;
	reset) verdict='reject with tcp reset' ;;
	esac
	printf 'add rule %s %s %s %s\n' "$into" "$chain" "$match" "$verdict"
	case $verdict in
	tproxy*) # takes what a socket of Envoy's takes; what is left must not begin a connection to the program
		printf 'add rule %s %s %s tcp flags & (fin | syn | rst | ack) == syn drop\n' "$into" "$chain" "$match"
		;;
	esac
}

# nft_rules TABLE [dormant] prints a table. A dormant one is held by the kernel and asked nothing.
nft_rules() {
	into=$1
	printf '%s\n' "add table $into" "delete table $into"
	[ "$POLICY" != none ] || return 0
	printf '%s\n' "add table $into${2:+ { flags dormant ; \}}"
	for chain in $(chains_of nat) $(chains_of filter) $(chains_of mangle) $(chains_of raw); do
		case $chain in
		prerouting) hook='nat hook prerouting priority dstnat' ;;
		output | dns) hook='nat hook output priority -100' ;;
		onward) hook='nat hook postrouting priority srcnat' ;;
		dnsown | apart) hook='filter hook output priority raw' ;;
		dnsback) hook='filter hook prerouting priority raw' ;;
		guard) hook='filter hook input priority filter' ;;
		invalid | intercept) hook='filter hook prerouting priority mangle' ;;
		reroute) hook='route hook output priority mangle' ;;
		*) hook= ;;
		esac
		printf '%s\n' "add chain $into $chain${hook:+ { type $hook ; policy accept ; \}}"
	done
	"$POLICY"
}

nft_load() { printf '%s\n' "$1" | nft -f -; }

# nft_list prints a table, nothing where there is none.
nft_list() {
	tables=$(nft list tables) || return 1
	# shellcheck disable=SC2086 # two words
	case "$tables
" in
	*"table $1
"*) nft -s list table $1 ;;
	esac
}

# nft_body prints a listing without its first line and the flag, in which alone two equal tables differ.
nft_body() {
	listing=${1#*"
"}
	printf '%s' "${listing#"	flags dormant

"}"
}

nft_print() { nft_rules "$TABLE"; }
nft_found() {
	BEFORE=$(nft_list "$TABLE") || fail "nft cannot list tables, as it says above: nothing is changed"
	NFT_BEFORE=$BEFORE
}

nft_same() {
	UNDO="nft_unstage; $UNDO"
	staged=$(nft_rules "$NEXT" dormant)
	nft_load "$staged" || fail "nft refuses the rules, as it says above: nothing is changed"
	staged=$(nft_list "$NEXT") || fail "nft cannot list tables, as it says above: nothing is changed"
	nft_unstage || fail "nft cannot delete the table $NEXT, as it says above: nothing is changed"
	[ "$(nft_body "$staged")" = "$(nft_body "$NFT_BEFORE")" ]
}

nft_unstage() { nft_load "$(POLICY=none && nft_rules "$NEXT")"; }
nft_apply() { nft_load "$(nft_rules "$TABLE")"; }
nft_restore() {
	nft_load "$(POLICY=none && nft_rules "$TABLE")
$NFT_BEFORE"
}
