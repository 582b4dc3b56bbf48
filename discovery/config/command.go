package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/internal/spelling"
)

// Envoy's commands, which are allowed in values of headers and in formats of access logs: %REQ(:METHOD)%,
// %START_TIME(%s)%. Envoy refuses a whole route configuration, or listener, because of one command that it does not
// support.

// command is the form that Envoy looks for behind a single %.
var command = regexp.MustCompile(`^%([A-Z0-9_]+)(?:\((.*?)\))?(?::([0-9]+))?%`)

// commandForm is the form of the arguments of a command.
type commandForm struct {
	required, optional bool // an argument
	length             bool // at most so many characters of it
	argument           func(string) bool
}

// maxCommandFaults is how many wrong commands of one text are named.
const maxCommandFaults = 10

// formatted returns the faults for which Envoy would refuse a text, one message for each of the first wrong commands.
func formatted(text string) (faults []string) {
	if !strings.Contains(text, "%") {
		return nil
	}
	forms := commands()
	for i := 0; i < len(text) && len(faults) < maxCommandFaults; {
		rest := text[i:]
		if !strings.HasPrefix(rest, "%") {
			i++
			continue
		}
		if strings.HasPrefix(rest, "%%") {
			i += 2
			continue
		}
		m := command.FindStringSubmatch(rest)
		if m == nil {
			return append(faults, fmt.Sprintf("is %q, want %%%% for a percent sign", text))
		}
		i += len(m[0])
		name, argument, length := m[1], m[2], m[3]
		f, known := forms[name]
		_, err := strconv.ParseUint(length, 10, 64)
		switch {
		case !known:
			end := ", which is not one of those that objects may have"
			if near := spelling.Nearest(name, slices.Sorted(maps.Keys(forms))); near != "" {
				end = fmt.Sprintf(", did you mean %q?", near)
			}
			faults = append(faults, fmt.Sprintf("has the command %%%s%%%s", name, end))
		case f.required && argument == "":
			faults = append(faults, fmt.Sprintf("has the command %s, want an argument: %%%s(…)%%", m[0], name))
		case !f.required && !f.optional && argument != "":
			faults = append(faults, fmt.Sprintf("has the command %s, want %%%s%%: it takes no argument", m[0], name))
		case argument != "" && f.argument != nil && !f.argument(argument):
			faults = append(faults, fmt.Sprintf("has the command %s, whose argument is not right", m[0]))
		case length != "" && !f.length:
			faults = append(faults, fmt.Sprintf("has the command %s, want it without :%s: it takes no length", m[0], length))
		case length != "" && err != nil:
			faults = append(faults, fmt.Sprintf("has the command %s, want a smaller length", m[0]))
		}
	}
	return faults
}

// headerArgument reports whether s is NAME or NAME?OTHER; Envoy uses OTHER if there is no header NAME.
func headerArgument(s string) bool {
	names := strings.Split(s, "?")
	return len(names) <= 2 && strings.Trim(s, "?") != "" &&
		!slices.ContainsFunc(names, func(name string) bool { return name != "" && !headerName.MatchString(name) })
}

func pathArgument(s string) bool {
	query, which, _ := strings.Cut(s, ":")
	return slices.Contains([]string{"WQ", "NQ"}, query) && slices.Contains([]string{"", "ORIG", "PATH", "ORIG_OR_PATH"}, which)
}

func filterState(s string) bool {
	_, as, found := strings.Cut(s, ":")
	return !found || as == "PLAIN" || as == "TYPED" || strings.HasPrefix(as, "FIELD:") && len(as) > len("FIELD:")
}

// headerFormatted returns the faults of a header's value. What any client could read by it is an allow-list: it has no
// command that shows the proxy itself, which formats of access logs, the operator's, may have.
func headerFormatted(text string) []string {
	if name := model.ForeignCommand(text); name != "" && slices.Contains(slices.Collect(maps.Keys(commands())), name) {
		return append(formatted(text), fmt.Sprintf("has the command %%%s(…)%%, which shows the proxy itself to every client: "+
			"it is for access logs alone", name))
	}
	return formatted(text)
}

// commands returns the commands that formats may have: of those of Envoy 1.40, the ones that need no further
// configuration. A test runs them against Envoy.
func commands() map[string]commandForm {
	out := map[string]commandForm{
		"REQ": {required: true, length: true, argument: headerArgument}, "RESP": {required: true, length: true, argument: headerArgument},
		"TRAILER": {required: true, length: true, argument: headerArgument}, "ENVIRONMENT": {required: true, length: true},
		"DYNAMIC_METADATA": {required: true, length: true}, "QUERY_PARAM": {required: true, length: true},
		"FILTER_STATE":     {required: true, length: true, argument: filterState},
		"CLUSTER_METADATA": {required: true}, "UPSTREAM_METADATA": {required: true},
		"PATH":                         {optional: true, length: true, argument: pathArgument},
		"DOWNSTREAM_PEER_CERT_V_START": {optional: true}, "DOWNSTREAM_PEER_CERT_V_END": {optional: true},
		"START_TIME": {optional: true}, "EMIT_TIME": {optional: true}, "RESPONSE_CODE_DETAILS": {optional: true},
	}
	for name := range strings.FieldsSeq(`
		ACCESS_LOG_TYPE BYTES_RECEIVED BYTES_SENT CONNECTION_ID CONNECTION_TERMINATION_DETAILS
		DOWNSTREAM_DIRECT_REMOTE_ADDRESS DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT DOWNSTREAM_DIRECT_REMOTE_PORT
		DOWNSTREAM_LOCAL_ADDRESS DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT DOWNSTREAM_LOCAL_PORT DOWNSTREAM_LOCAL_SUBJECT
		DOWNSTREAM_LOCAL_URI_SAN DOWNSTREAM_PEER_CERT DOWNSTREAM_PEER_FINGERPRINT_256 DOWNSTREAM_PEER_ISSUER
		DOWNSTREAM_PEER_SERIAL DOWNSTREAM_PEER_SUBJECT DOWNSTREAM_PEER_URI_SAN DOWNSTREAM_REMOTE_ADDRESS
		DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT DOWNSTREAM_REMOTE_PORT DOWNSTREAM_TLS_CIPHER DOWNSTREAM_TLS_SESSION_ID
		DOWNSTREAM_TLS_VERSION DOWNSTREAM_TRANSPORT_FAILURE_REASON DURATION GRPC_STATUS GRPC_STATUS_NUMBER HOSTNAME
		LOCAL_REPLY_BODY PROTOCOL REQUESTED_SERVER_NAME REQUEST_DURATION REQUEST_HEADERS_BYTES RESPONSE_CODE RESPONSE_DURATION
		RESPONSE_FLAGS RESPONSE_HEADERS_BYTES RESPONSE_TX_DURATION ROUTE_NAME STREAM_ID TRACE_ID UNIQUE_ID UPSTREAM_CLUSTER
		UPSTREAM_CLUSTER_RAW UPSTREAM_HOST UPSTREAM_HOST_NAME UPSTREAM_LOCAL_ADDRESS UPSTREAM_LOCAL_PORT UPSTREAM_PEER_SUBJECT
		UPSTREAM_REMOTE_ADDRESS UPSTREAM_REMOTE_PORT UPSTREAM_REQUEST_ATTEMPT_COUNT UPSTREAM_TLS_CIPHER UPSTREAM_TLS_VERSION
		UPSTREAM_TRANSPORT_FAILURE_REASON UPSTREAM_WIRE_BYTES_SENT VIRTUAL_CLUSTER_NAME`) {
		out[name] = commandForm{}
	}
	return out
}

// format requires a format of access logs: text, or an object whose texts at any depth are formats.
func (f field) format(v any) {
	switch v := v.(type) {
	case string:
		for _, fault := range formatted(v) {
			f.errorf("%s", fault)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			f.key(key).format(v[key])
		}
	case []any:
		for i := range v {
			f.item(i).format(v[i])
		}
	}
}
