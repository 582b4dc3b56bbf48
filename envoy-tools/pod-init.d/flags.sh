# shellcheck shell=sh disable=SC2034 # a part of pod-init: its variables are shared
# What the environment and the flags say. Names and defaults are those of Istio's script.

# id_of FILE NAME prints the id of a user in /etc/passwd or of a group in /etc/group; nothing where there is none.
id_of() {
	[ -r "$1" ] || return 0
	while IFS=: read -r name _ id _; do
		[ "$name" != "$2" ] || printf '%s' "$id"
	done <"$1"
}

settings() {
	OUT=${ENVOY_PORT:-15001}
	DNS_PORT=15053
	IN=${INBOUND_CAPTURE_PORT:-15006}
	UIDS=${PROXY_UID:-$(id_of /etc/passwd "${ENVOY_USER:-istio-proxy}")}
	UIDS=${UIDS:-1337}
	GIDS=${PROXY_GID:-}
	MODE=${ISTIO_INBOUND_INTERCEPTION_MODE:-REDIRECT}
	MARK=${ISTIO_INBOUND_TPROXY_MARK:-1337}
	ROUTES=${ISTIO_INBOUND_TPROXY_ROUTE_TABLE:-133}
	IN_PORTS=${ISTIO_INBOUND_PORTS-*}
	IN_SKIP=${ISTIO_LOCAL_EXCLUDE_PORTS-15020}
	CIDRS=${ISTIO_SERVICE_CIDR-*}
	CIDRS_SKIP=${ISTIO_SERVICE_EXCLUDE_CIDR-}
	OUT_PORTS=${ISTIO_OUTBOUND_PORTS-}
	OUT_SKIP=${ISTIO_LOCAL_OUTBOUND_PORTS_EXCLUDE-}
	GROUPS_ONLY=${ISTIO_OUTBOUND_OWNER_GROUPS:-*}
	GROUPS_SKIP=${ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE-}
	INTERFACES=${KUBEVIRT_INTERFACES-}
	INTERFACES_SKIP=${ISTIO_EXCLUDE_INTERFACES-}
	BACKEND=${POD_INIT_BACKEND:-} BACKENDS=''
	SELF=inbound
	[ -z "${DISABLE_REDIRECTION_ON_LOCAL_LOOPBACK:-}" ] || SELF=
	INVALID='' && switch INVALID_DROP "${INVALID_DROP:-false}" INVALID drop
	DNS='' DNS_ALL='' && switch ISTIO_META_DNS_CAPTURE "${ISTIO_META_DNS_CAPTURE:-false}" DNS on
	RESOLV_CONF=${RESOLV_CONF:-/etc/resolv.conf}
	DO=apply DRY='' VERIFY='' KEEP='' POLICY=policy BEFORE='' UNDO='' TARGET=''
}

# not_done NAME WHY: what Istio's script takes and this one does not do is said, not refused: an injector passes it.
not_done() { say "$1: nothing is done for it: $2"; }

# truth VALUE: it is one of the words for true.
truth() {
	case $1 in
	true | True | TRUE | 1 | t | T) return 0 ;;
	esac
	return 1
}

# switch NAME VALUE VARIABLE WORD sets the variable to the word where the value is true.
switch() {
	case $2 in
	true | True | TRUE | 1 | t | T) eval "$3=\$4" ;;
	false | False | FALSE | 0 | f | F) ;;
	*) wrong "$1=$2: want true or false" ;;
	esac
}

flags() {
	case ${1:-} in
	apply | clean) DO=$1 && shift ;;
	explain)
		DO=$1 TARGET=${2:-}
		shift
		[ $# -eq 0 ] || shift
		;;
	esac
	while getopts :p:z:u:g:m:b:d:i:x:o:q:c:k:t:r:e:nh-: flag; do
		case $flag in
		p) OUT=$OPTARG ;;
		z) IN=$OPTARG ;;
		u) UIDS=$OPTARG ;;
		g) GIDS=$OPTARG ;;
		m) MODE=$OPTARG ;;
		b) IN_PORTS=$OPTARG ;;
		d) IN_SKIP=$OPTARG ;;
		i) CIDRS=$OPTARG ;;
		x) CIDRS_SKIP=$OPTARG ;;
		o) OUT_SKIP=$OPTARG ;;
		q) OUT_PORTS=$OPTARG ;;
		c) INTERFACES_SKIP=$OPTARG ;;
		k) INTERFACES=$OPTARG ;;
		t) MARK=$OPTARG ;;
		r) ROUTES=$OPTARG ;;
		e) not_done -e "tunnels (HBONE) are not served" ;;
		n) DRY=dry ;;
		h) usage && exit 0 ;;
		-)
			TAKEN=0
			long "$@"
			OPTIND=$((OPTIND + TAKEN)) # here, for a shell may keep OPTIND for each function
			;;
		:) wrong "-$OPTARG: wants a value" ;;
		*) wrong "-$OPTARG: no such flag; pod-init -h lists them" ;;
		esac
	done
	shift $((OPTIND - 1))
	[ $# -eq 0 ] || wrong "$1: want apply, clean or explain, and it comes first"
	[ -n "$GIDS" ] || GIDS=$UIDS
}

# long WORDS reads the long flag that getopts has found in the words as OPTARG, and counts in TAKEN the words behind it.
long() {
	case ${OPTARG%%=?*} in
	envoy-port) value OUT "$@" ;;
	inbound-capture-port) value IN "$@" ;;
	proxy-uid) value UIDS "$@" ;;
	proxy-gid) value GIDS "$@" ;;
	istio-inbound-interception-mode) value MODE "$@" ;;
	istio-inbound-tproxy-mark) value MARK "$@" ;;
	istio-inbound-tproxy-route-table) value ROUTES "$@" ;;
	istio-inbound-ports) value IN_PORTS "$@" ;;
	istio-local-exclude-ports) value IN_SKIP "$@" ;;
	istio-service-cidr) value CIDRS "$@" ;;
	istio-service-exclude-cidr) value CIDRS_SKIP "$@" ;;
	istio-outbound-ports) value OUT_PORTS "$@" ;;
	istio-local-outbound-ports-exclude) value OUT_SKIP "$@" ;;
	istio-exclude-interfaces) value INTERFACES_SKIP "$@" ;;
	kube-virt-interfaces) value INTERFACES "$@" ;;
	backend) value BACKEND "$@" ;;
	help) usage && exit 0 ;;
	dry-run) boolean DRY dry ;;
	verify=) wrong "--verify=: want an IP address" ;;
	verify) VERIFY=auto && [ "$OPTARG" = verify ] || VERIFY=${OPTARG#*=} ;;
	run-validation) boolean VERIFY auto ;;
	keep-connections) boolean KEEP kept ;;
	drop-invalid) boolean INVALID drop ;;
	native-nftables) boolean BACKEND nft ;;
	cleanup-only) boolean DO clean ;;
	skip-rule-apply) boolean DO check ;;
	dual-stack | force-apply | reconcile) not_done "--${OPTARG%%=*}" "it is always so here" ;;
	redirect-dns) DNS='' && boolean DNS on ;;
	capture-all-dns) boolean DNS_ALL all ;;
	inbound-tunnel-port) value ignored "$@" && not_done "--inbound-tunnel-port" "tunnels (HBONE) are not served" ;;
	log_* | iptables-trace-logging) value_or_none "$@" && not_done "--${OPTARG%%=*}" "there is one level of log here" ;;
	iptables-probe-port | probe-timeout) value ignored "$@" && not_done "--${OPTARG%%=*}" "--verify knows its ports and times" ;;
	force-iptables-binary) value ignored "$@" && not_done "--force-iptables-binary" "use --backend" ;;
	cni-mode) not_done "--cni-mode" "run pod-init inside the pod's network namespace" ;;
	network-namespace) wrong "--network-namespace: not taken: run nsenter --net=FILE pod-init instead" ;;
	*) wrong "--$OPTARG: no such flag; pod-init -h lists them" ;;
	esac
}

# value VARIABLE WORDS sets the variable to what stands behind the flag's =, else to the next word.
value() {
	variable=$1
	shift
	case $OPTARG in
	*=*) eval "$variable=\${OPTARG#*=}" ;;
	*)
		[ $OPTIND -le $# ] || wrong "--$OPTARG: wants a value"
		eval "$variable=\${$OPTIND}" TAKEN=1
		;;
	esac
}

# value_or_none WORDS is for flags that may stand alone, or with a word behind them that is no flag.
value_or_none() {
	case $OPTARG in
	*=*) return 0 ;;
	esac
	[ $OPTIND -le $# ] || return 0
	eval "case \${$OPTIND} in -*) ;; *) TAKEN=1 ;; esac"
}

# boolean VARIABLE WORD: the flag stands alone, or has =true or =false.
boolean() {
	case $OPTARG in
	*=*) switch "--${OPTARG%%=*}" "${OPTARG#*=}" "$1" "$2" ;;
	*) eval "$1=\$2" ;;
	esac
}
