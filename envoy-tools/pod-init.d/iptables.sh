# shellcheck shell=sh disable=SC2034,SC2153,SC2154 # a part of pod-init: its variables are shared
# The backend iptables: chains of ours, and jumps to them. Each family is applied in one run of iptables-restore.

PREFIX=pilotlight-
NEXT_PREFIX=pilotlight-next-

# iptables_rule prints a rule where it is of $family, and its chain among $chains.
iptables_rule() {
	case " $chains " in
	*" $1 "*) ;;
	*) return 0 ;;
	esac
	chain=$1 verdict=$2 protocol=$(protocol_of "$1")
	match="-p $protocol"
	shift 2
	while [ $# -gt 0 ]; do
		case $1 in
		iif) match="$match -i $2" ;;
		oif) match="$match -o $2" ;;
		dport | sport)
			match="$match -m $protocol --$1 ${2%%-*}"
			[ "${2#*-}" = "$2" ] || match="$match:${2#*-}"
			;;
		uid | gid) match="$match -m owner --$1-owner $2" ;;
		notgid) match="$match -m owner ! --gid-owner $2" ;;
		invalid) match="$match -m conntrack --ctstate INVALID" ;;
		mark) match="$match -m mark --mark $2" ;;
		ctmark) match="$match -m connmark --mark $2" ;;
		transparent) match="$match -m socket --transparent" ;;
		direct) match="$match -m conntrack --ctstate NEW -m conntrack ! --ctstate DNAT" ;;
		established) match="$match -m conntrack --ctstate ESTABLISHED" ;;
		reply) match="$match -m conntrack --ctdir REPLY" ;;
		tracked) match="$match -m tcp --syn -m conntrack --ctstatus CONFIRMED -m conntrack ! --ctstate DNAT" ;;
		begun) match="$match -m tcp ! --syn" ;;
		saddr | daddr | notto)
			case $family$2 in
			4*:* | 6*.*) return 0 ;;
			esac
			case $1 in
			saddr) match="$match -s $2" ;;
			daddr) match="$match -d $2" ;;
			notto) match="$match ! -d $2" ;;
			esac
			;;
		esac
		shift 2
	done
	case $verdict in
	goto*) verdict="-g $into${verdict#* }" ;;
	redirect*) verdict="-j REDIRECT --to-ports ${verdict#* }" ;;
	tproxy*) # drops what no socket of Envoy's takes; a connection to the program that is older than the rules stays
		printf '%s\n' "-A $into$chain $match -m tcp ! --syn -m socket -j RETURN"
		verdict="-j TPROXY --on-port ${verdict#* } --tproxy-mark $MARK"
		;;
	zone*) verdict="-j CT --zone ${verdict#* }" ;; # the first one counts
	origin*) verdict="-j CT --zone-orig ${verdict#* }" ;;
	source*) verdict="-j SNAT --to-source :${verdict#* }" ;;
	mark) verdict="-j MARK --set-mark $MARK" ;;
	save) verdict='-j CONNMARK --save-mark' ;;
	restore) verdict='-j CONNMARK --restore-mark' ;;
	reset) verdict='-j REJECT --reject-with tcp-reset' ;;
	return) verdict='-j RETURN' ;;
	accept) verdict='-j ACCEPT' ;;
	drop) verdict='-j DROP' ;;
	esac
	printf '%s\n' "-A $into$chain $match $verdict"
}

# hook_of prints the built-in chain that leads to one of ours.
hook_of() {
	case $1 in
	prerouting | invalid | intercept | dnsback) echo PREROUTING ;;
	output | reroute | dns | dnsown | apart) echo OUTPUT ;;
	onward) echo POSTROUTING ;;
	guard) echo INPUT ;;
	esac
}

# jumps prints what leads to $chains.
jumps() {
	for chain in $chains; do
		hook=$(hook_of "$chain")
		[ -z "$hook" ] || printf '%s\n' "-A $hook -p $(protocol_of "$chain") -j $PREFIX$chain"
	done
}

# iptables_rules FAMILY PREFIX SAVED prints what replaces our chains in SAVED, a listing of iptables-save, by the policy.
# With a prefix of its own it prints chains that nothing leads to; with the policy "none", nothing instead.
iptables_rules() {
	family=$1 into=$2
	for table in nat filter mangle raw; do
		chains=$(chains_of $table)
		lines=$(
			gone $table "$into" "$3"
			for chain in $chains; do printf '%s\n' ":$into$chain - [0:0]"; done
			"$POLICY"
			[ "$into" != $PREFIX ] || jumps
		)
		[ -z "$lines" ] || printf '%s\n' "*$table" "$lines" COMMIT
	done
}

# gone TABLE PREFIX SAVED prints what deletes our chains of a table, and what leads to them.
gone() {
	flush='' delete='' here=''
	while IFS= read -r line; do
		case $line in
		"*$1") here=1 ;;
		\**) here='' ;;
		":$2"*)
			line=${line%% *}
			[ -z "$here" ] || flush="$flush-F ${line#:}
" delete="$delete-X ${line#:}
"
			;;
		"-A $2"*) ;;
		"-A "*" $2"*) [ -z "$here" ] || printf '%s\n' "-D ${line#-A }" ;;
		esac
	done <<-SAVED
		$3
	SAVED
	printf '%s' "$flush$delete"
}

# ours PREFIX SAVED prints our chains and what leads to them, as if the prefix were the usual one.
ours() {
	while IFS= read -r line; do
		case $line in
		\**) table=$line ;;
		:"$1"* | "-A "*"$1"*)
			line="$table ${line%% \[*}"
			while [ "$1" != "$PREFIX" ] && [ "${line#*"$1"}" != "$line" ]; do
				line=${line%%"$1"*}$PREFIX${line#*"$1"}
			done
			printf '%s\n' "$line"
			;;
		esac
	done <<-SAVED
		$2
	SAVED
}

# past TABLE SAVED prints our lines of a table as they were saved.
past() {
	here=''
	while IFS= read -r line; do
		case $line in
		"*$1") here=1 ;;
		\**) here='' ;;
		:$PREFIX* | "-A "*"$PREFIX"*) [ -z "$here" ] || printf '%s\n' "$line" ;;
		esac
	done <<-SAVED
		$2
	SAVED
}

# chains_in OURS prints the lines of ours that are not jumps into our chains.
chains_in() {
	while IFS= read -r line; do
		case $line in
		*" :"* | *" -A $PREFIX"*) printf '%s\n' "$line" ;;
		esac
	done <<-OURS
		$1
	OURS
}

# jumped OURS: every jump that should be is there.
jumped() {
	for table in nat filter mangle raw; do
		chains=$(chains_of $table)
		while IFS= read -r line; do
			case $1 in
			*"*$table $line"*) ;;
			*) [ -z "$line" ] || return 1 ;;
			esac
		done <<-JUMPS
			$(jumps)
		JUMPS
	done
}

iptables_families() {
	echo 4
	! six_is_on || echo 6
}

iptables_save() { "ip${1%4}tables-save"; }
iptables_load() { printf '%s\n' "$2" | "ip${1%4}tables-restore" --noflush; }
iptables_before() { eval "printf '%s\n' \"\$BEFORE$1\""; }

iptables_print() {
	for f in $(iptables_families); do
		printf '%s\n' "# ip${f%4}tables-restore --noflush"
		iptables_rules "$f" $PREFIX "$(iptables_before "$f")"
	done
}

iptables_found() {
	BEFORE6=
	BEFORE4=$(iptables_save 4) || fail "iptables-save fails, as it says above: nothing is changed"
	! six_is_on || BEFORE6=$(iptables_save 6) || fail "ip6tables-save fails, as it says above: nothing is changed"
	BEFORE=$(ours $PREFIX "$BEFORE4" && ours $PREFIX "$BEFORE6")
}

iptables_same() {
	UNDO="iptables_unstage; $UNDO"
	for f in $(iptables_families); do
		iptables_load "$f" "$(iptables_rules "$f" $NEXT_PREFIX "$(iptables_before "$f")")" ||
			fail "iptables refuses the rules, as it says above: nothing is changed"
	done
	STAGED4=$(iptables_save 4) || fail "iptables-save fails, as it says above: nothing is changed"
	! six_is_on || STAGED6=$(iptables_save 6) || fail "ip6tables-save fails, as it says above: nothing is changed"
	iptables_unstage || fail "iptables refuses to forget what it has checked, as it says above: nothing is changed"
	for f in $(iptables_families); do
		eval "staged=\$STAGED$f"
		live=$(ours $PREFIX "$(iptables_before "$f")")
		[ "$(chains_in "$(ours $NEXT_PREFIX "$staged")")" = "$(chains_in "$live")" ] || return 1
		jumped "$live" || return 1
	done
}

iptables_unstage() {
	for f in $(iptables_families); do
		staged=$(iptables_save "$f") || return 1
		iptables_load "$f" "$(POLICY=none && iptables_rules "$f" $NEXT_PREFIX "$staged")" || return 1
	done
}

iptables_apply() {
	for f in $(iptables_families); do
		iptables_load "$f" "$(iptables_rules "$f" $PREFIX "$(iptables_before "$f")")" || return 1
	done
}

# iptables_restore puts back what iptables_found has found.
iptables_restore() {
	for f in $(iptables_families); do
		now=$(iptables_save "$f")
		lines=$(
			for table in nat filter mangle raw; do
				printf '%s\n' "*$table"
				gone $table $PREFIX "$now"
				past $table "$(iptables_before "$f")"
				echo COMMIT
			done
		)
		iptables_load "$f" "$lines"
	done
}
