package why

import (
	"fmt"
	"strings"
)

type kind string

// The first word of a counter's name.
const (
	ofCluster  kind = "cluster"
	ofHTTP     kind = "http"
	ofListener kind = "listener"
	ofTCP      kind = "tcp"
	ofFilter   kind = "filter" // its counters begin with its own stat prefix, and with no word of Envoy's
)

// cause is what a counter means.
type cause struct {
	kind    kind
	stat    string // the end of the counter's name
	flag    string // Envoy's response flag; empty where it has none
	what    string // that happened so often: "request"
	tell    func(s subject) string
	instead string // for a configuration of Istio's
	own     string // for one of the user's own; empty for the same
}

// plain tells a sentence that depends on nothing but the place.
func plain(sentence string) func(subject) string {
	return func(subject) string { return sentence }
}

var causes = []cause{
	// Requests that Envoy did not send.
	{
		ofCluster, "upstream_rq_pending_overflow", "UO", "request", overflow,
		"raise connectionPool (http.http1MaxPendingRequests, http.http2MaxRequests, tcp.maxConnections) of its DestinationRule, or add endpoints",
		"raise max_pending_requests, max_requests or max_connections in circuit_breakers of the cluster, or add endpoints",
	},
	{
		ofCluster, "upstream_cx_none_healthy", "UH", "request", noneHealthy,
		"start an endpoint or have it pass its health check; see `agent request GET /clusters` for the health of each",
		"",
	},
	{
		ofCluster, "upstream_rq_maintenance_mode", "UH", "request", plain("the cluster is in maintenance mode"),
		"reset upstream.maintenance_mode of the cluster in Envoy's runtime", "",
	},
	{
		ofHTTP, "no_route", "NR", "request", plain("no route matches"),
		"compare host, path and headers of the request with the VirtualServices of that port (`discovery validate` names those that hide each other), or add a route",
		"add a virtual host or a route to the route configuration of that listener",
	},
	{
		ofHTTP, "no_cluster", "NC", "request", plain("the route leads to a cluster that Envoy does not have"),
		"name a service and a subset that exist in the VirtualService's destination; /debug/notes of discovery has it as an unknown host or subset",
		"name a cluster that exists in the route",
	},
	{
		ofTCP, "downstream_cx_no_route", "NR", "connection", plain("the connection's cluster does not exist, or it has none"),
		"name a service and a subset that exist in the destination of the VirtualService's tcp or tls route", "name a cluster that exists in tcp_proxy",
	},
	{
		ofListener, "no_filter_chain_match", "NR", "connection", plain("no filter chain matches: another port, server name or protocol (TLS or plain text) than it takes"),
		"have the client use the protocol that the server takes: compare its DestinationRule's tls with the server's PeerAuthentication, and its server name (SNI) with the Gateway's hosts",
		"add a filter chain, or a default_filter_chain, to the listener",
	},

	// Connections to endpoints.
	{
		ofCluster, "upstream_cx_connect_fail", "UF", "connection", connectFailed,
		"start the server, or have it listen at that address and port: a program that listens on 127.0.0.1 alone is not reached by its pod's address", "",
	},
	{
		ofCluster, "ssl.connection_error", "UF", "connection", plain("the TLS handshake failed: the server does not speak TLS, or has ended it with an alert"),
		"set tls of its DestinationRule to DISABLE if the server speaks plain text; to MUTUAL or ISTIO_MUTUAL if it wants a client's certificate",
		"leave out transport_socket of the cluster if the server speaks plain text; give it a client's certificate if the server wants one",
	},
	{
		ofCluster, "ssl.fail_verify_error", "UF", "connection", plain("Envoy refused the server's certificate: no root that it has signed it, or it is not valid now"),
		"name the server's authority in caCertificates (or credentialName) of its DestinationRule; compare the clocks and the end of the certificate",
		"name the server's authority in trusted_ca of the cluster; compare the clocks and the end of the certificate",
	},
	{
		ofCluster, "ssl.fail_verify_san", "UF", "connection", plain("Envoy refused the server's certificate: it has another name than the one that is expected"),
		"`discovery explain --from WORKLOAD --to HOST:PORT` names both; name the certificate's own names in subjectAltNames of its DestinationRule, or the ServiceEntry's, " +
			"and a workload's service account at its endpoint",
		"name the certificate's own names in match_typed_subject_alt_names of the cluster",
	},
	{
		ofCluster, "ssl.fail_verify_no_cert", "UF", "connection", plain("the server has shown no certificate"), "give the server a certificate", "",
	},

	// Requests that endpoints did not answer.
	{
		ofCluster, "upstream_rq_timeout", "UT", "request", timedOut,
		"look at why the server is slow, or raise timeout of the VirtualService's route", "look at why the server is slow, or raise timeout of the route (15s if it is not set)",
	},
	{
		ofCluster, "upstream_rq_per_try_timeout", "UT", "try", plain("the server has not answered within the time of one try"),
		"look at why the server is slow, or raise retries.perTryTimeout of the VirtualService's route", "look at why the server is slow, or raise per_try_timeout of the route",
	},
	{
		ofCluster, "upstream_rq_retry_limit_exceeded", "URX", "request", plain("each try failed, and no retry was left"),
		"look at the other findings for the same place: they say why tries fail; more attempts rarely help", "",
	},
	{
		ofCluster, "upstream_rq_retry_overflow", "UO", "retry", retryOverflow,
		"raise connectionPool.http.maxRetries of its DestinationRule", "raise max_retries in circuit_breakers of the cluster",
	},
	{
		ofCluster, "upstream_cx_destroy_remote_with_active_rq", "UC", "connection", plain("the server closed it while a request was under way"),
		"look at whether the server ended or crashed; have it keep idle connections longer than connectionPool.http.idleTimeout of its DestinationRule",
		"look at whether the server ended or crashed; have it keep idle connections longer than idle_timeout of the cluster (1h if it is not set)",
	},
	{
		ofCluster, "upstream_rq_rx_reset", "UR", "request", plain("the server reset the request"), "look at the server's log", "",
	},
	{
		ofCluster, "upstream_cx_protocol_error", "UPE", "connection", plain("the server's answer is not the HTTP that Envoy expects"),
		"name the port's protocol as the server speaks it (http, http2, grpc, tcp): by the port's name or appProtocol",
		"set the HTTP version of the cluster's HttpProtocolOptions as the server speaks it",
	},
	{
		ofCluster, "outlier_detection.ejections_active", "", "endpoint", ejected,
		"look at why they fail; they come back by themselves: outlierDetection of its DestinationRule says after which errors, and for how long, they are out",
		"look at why they fail; they come back by themselves: outlier_detection of the cluster says after which errors, and for how long, they are out",
	},

	// Clients.
	{
		ofListener, "ssl.connection_error", "", "connection", plain("a client's TLS handshake failed: it speaks plain text, or has refused this server's certificate"),
		"have the client use TLS, or trust this server's authority; plain text is taken with mode PERMISSIVE of a PeerAuthentication",
		"have the client use TLS, and trust this server's authority",
	},
	{
		ofListener, "ssl.fail_verify_error", "", "connection", plain("Envoy refused a client's certificate: no root that it has signed it, or it is not valid now"),
		"give the client a certificate of the mesh's authority; compare the clocks", "name the client's authority in trusted_ca of the listener; compare the clocks",
	},
	{
		ofListener, "ssl.fail_verify_san", "", "connection", plain("Envoy refused a client's certificate: its name is not allowed"),
		"add the client's name to subjectAltNames of the Gateway's server", "add the client's name to match_typed_subject_alt_names of the listener",
	},
	{
		ofListener, "ssl.fail_verify_no_cert", "", "connection", plain("a client has shown no certificate"),
		"have the client use ISTIO_MUTUAL or MUTUAL, or do not ask for one: PERMISSIVE of a PeerAuthentication, SIMPLE of a Gateway's server",
		"give the client a certificate, or unset require_client_certificate of the listener",
	},
	{
		ofHTTP, "downstream_rq_rx_reset", "DC", "request", plain("the client left before its answer came"),
		"raise the client's time limit, or look at why the server is slow", "",
	},
	{
		ofHTTP, "downstream_cx_protocol_error", "DPE", "connection", plain("a client's request is no HTTP that Envoy takes"), "look at what the client sends: TLS to a port of plain HTTP is such", "",
	},
	{
		ofHTTP, "rbac.denied", "", "request", plain("a policy does not allow it (403)"),
		"allow it by an AuthorizationPolicy that selects this workload; `discovery explain --from WORKLOAD --to HOST:PORT` names the client's identity, and the policies with " +
			"what their rules want", "allow it in the rules of the filter rbac",
	},
	{
		ofHTTP, "ext_authz.denied", "UAEX", "request", plain("the external authorization server refused it"), "ask that server's log", "",
	},
	{
		ofHTTP, "ext_authz.error", "UAEX", "request", plain("the external authorization server did not answer"), "look at whether it is up; see the findings about its cluster", "",
	},
	{
		ofHTTP, "jwt_authn.denied", "", "request", plain("its token is missing, expired or of another issuer (401)"),
		"compare the token with the RequestAuthentication", "compare the token with the providers of the filter jwt_authn",
	},
	{
		ofHTTP, "http_local_rate_limit.rate_limited", "RL", "request", plain("the local rate limit is used up (429)"),
		"raise token_bucket of the local rate limit", "",
	},
	{
		ofFilter, "http_local_rate_limit.rate_limited", "RL", "request", plain("the local rate limit is used up (429)"),
		"raise token_bucket of the local rate limit", "",
	},
	{
		ofCluster, "ratelimit.over_limit", "RL", "request", plain("the rate limit service refused it (429)"), "raise the limit at that service", "",
	},
}

// Filter is the regular expression of the counters' names, for Envoy's /stats.
func Filter() string {
	byKind := map[kind][]string{}
	for _, c := range causes {
		byKind[c.kind] = append(byKind[c.kind], strings.ReplaceAll(c.stat, ".", `\.`))
	}
	var parts []string
	for _, k := range []kind{ofCluster, ofHTTP, ofListener, ofTCP} {
		parts = append(parts, fmt.Sprintf(`^%s\..*(%s)$`, k, strings.Join(byKind[k], "|")))
	}
	parts = append(parts, fmt.Sprintf(`\.(%s)$`, strings.Join(byKind[ofFilter], "|")))
	return strings.Join(parts, "|")
}

// causeOf returns the cause that a counter counts, and the name of its cluster, listener or stat prefix.
func causeOf(counter string) (c cause, where string, found bool) {
	word, rest, _ := strings.Cut(counter, ".")
	for _, c := range causes {
		name := rest
		if c.kind == ofFilter {
			name = counter // it comes after the others of its name
		} else if string(c.kind) != word {
			continue
		}
		if where, found := strings.CutSuffix(name, "."+c.stat); found && where != "" {
			return c, where, true
		}
	}
	return cause{}, "", false
}
