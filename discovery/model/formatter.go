package model

import (
	"regexp"
	"slices"
	"strings"
)

// formatterCommand is the form of a command of Envoy's formatter at its start: %REQ(:METHOD)%, %START_TIME(%s):5%.
var formatterCommand = regexp.MustCompile(`^%([A-Z0-9_]+)(?:\((.*?)\))?(?::([0-9]+))?%`)

// ForeignCommand returns the first command in a header's value that no object may have there, "" if there is none; of
// malformed text it returns the text. The commands are an allow-list: those show the request, its response and its
// connections. Others show the proxy itself, to any client: %ENVIRONMENT(NAME)% its variables, %FILE_CONTENT(PATH)% its
// files, and a later Envoy may have more.
func ForeignCommand(value string) string {
	for {
		at := strings.IndexByte(value, '%')
		if at < 0 {
			return ""
		}
		value = value[at:]
		if escaped, ok := strings.CutPrefix(value, "%%"); ok {
			value = escaped
			continue
		}
		m := formatterCommand.FindStringSubmatch(value)
		switch {
		case m == nil:
			return value
		case !slices.Contains(HeaderCommands(), m[1]):
			return m[1]
		}
		value = value[len(m[0]):]
	}
}

// HeaderCommands returns the commands that values of headers may have.
func HeaderCommands() []string {
	return strings.Fields(`
		ACCESS_LOG_TYPE BYTES_RECEIVED BYTES_SENT CLUSTER_METADATA CONNECTION_ID CONNECTION_TERMINATION_DETAILS
		DOWNSTREAM_DIRECT_REMOTE_ADDRESS DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT DOWNSTREAM_DIRECT_REMOTE_PORT
		DOWNSTREAM_LOCAL_ADDRESS DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT DOWNSTREAM_LOCAL_PORT DOWNSTREAM_LOCAL_SUBJECT
		DOWNSTREAM_LOCAL_URI_SAN DOWNSTREAM_PEER_CERT DOWNSTREAM_PEER_CERT_V_END DOWNSTREAM_PEER_CERT_V_START
		DOWNSTREAM_PEER_FINGERPRINT_256 DOWNSTREAM_PEER_ISSUER
		DOWNSTREAM_PEER_SERIAL DOWNSTREAM_PEER_SUBJECT DOWNSTREAM_PEER_URI_SAN DOWNSTREAM_REMOTE_ADDRESS
		DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT DOWNSTREAM_REMOTE_PORT DOWNSTREAM_TLS_CIPHER DOWNSTREAM_TLS_SESSION_ID
		DOWNSTREAM_TLS_VERSION DOWNSTREAM_TRANSPORT_FAILURE_REASON DURATION DYNAMIC_METADATA EMIT_TIME FILTER_STATE GRPC_STATUS
		GRPC_STATUS_NUMBER HOSTNAME LOCAL_REPLY_BODY PATH PROTOCOL QUERY_PARAM REQ REQUESTED_SERVER_NAME REQUEST_DURATION
		REQUEST_HEADERS_BYTES RESP RESPONSE_CODE RESPONSE_CODE_DETAILS RESPONSE_DURATION RESPONSE_FLAGS RESPONSE_HEADERS_BYTES
		RESPONSE_TX_DURATION ROUTE_NAME START_TIME STREAM_ID TRACE_ID TRAILER UNIQUE_ID UPSTREAM_CLUSTER UPSTREAM_CLUSTER_RAW
		UPSTREAM_HOST UPSTREAM_HOST_NAME UPSTREAM_LOCAL_ADDRESS UPSTREAM_LOCAL_PORT UPSTREAM_METADATA UPSTREAM_PEER_SUBJECT
		UPSTREAM_REMOTE_ADDRESS UPSTREAM_REMOTE_PORT UPSTREAM_REQUEST_ATTEMPT_COUNT UPSTREAM_TLS_CIPHER UPSTREAM_TLS_VERSION
		UPSTREAM_TRANSPORT_FAILURE_REASON UPSTREAM_WIRE_BYTES_SENT VIRTUAL_CLUSTER_NAME`)
}
