package crd_test

import "regexp"

// divergence is why discovery refuses what the API server takes. The other way round there is none: what the
// definitions refuse, discovery refuses. Istio's own webhook refuses most of these as well; the definitions cannot say
// it, or do not.
type divergence struct {
	message *regexp.Regexp // of discovery's error
	reason  string
}

func divergences() []divergence {
	var out []divergence
	for _, d := range []struct{ message, reason string }{
		{`want DNS labels|want the name of a host|want a full name`, "the definitions bound the length of a host, not its form"},
		{`which is there already`, "the definitions know duplicates only in the ports of a ServiceEntry"},
		{`want HTTP, HTTP2`, "the names of protocols are free text there"},
		{`is ".*", want an IP address|want .*a range such as`, "addresses are free text there"},
		{`is not the name of one of the service's ports`, "no rule there looks from an endpoint to its service"},
		{`exports to no namespace`, "the items of exportTo are free text there"},
		{`the label's name is|want letters, digits, '-', '_' and '\.'`, "labels are any text there"},
		{`NAME or NAMESPACE/NAME|want letters, digits and '-'|want the name of a VirtualService`, "names are any text there"},
		{`has no routes|is missing|is empty, want|has no key|says nothing, want`, "what an object cannot do without is rarely required there"},
		{
			`(is|are) given (beside|under|without)|names a certificate|is above maxProtocolVersion|which is no retry|want SIMPLE, MUTUAL or ISTIO_MUTUAL`,
			"fields that exclude or need each other are rarely told apart there",
		},
		{`want (a port, )?\d+ to \d+|want [01] or more|want 0 at|adds? up to|want at (least|most)|want whole|want 301`, "numbers and durations have few bounds there"},
		{`is not a regular expression|and the pattern has`, "nothing compiles patterns there"},
		{
			`the header's name is|that routes may remove|want the name of a header|want a token|for a percent sign|has the command`,
			"names and values of headers are any text there, and Envoy would refuse the whole route configuration",
		},
		{`did you mean|want one (of|that)`, "gRPC's statuses, methods, ciphers, server names and conditions of retries are free text there"},
		{`want a prime number`, "Envoy refuses other sizes of a Maglev table"},
		{`hexadecimal of|base64 of`, "fingerprints are any text there"},
		{`from which it fails over|want region/zone/subzone|want a region`, "localities are any text there"},
		{`want NAMESPACE/HOST|by which no route is chosen|want an absolute path|want 127\.0\.0\.1:PORT|want lower-case letters`, "this text has no form there"},
	} {
		out = append(out, divergence{regexp.MustCompile(d.message), d.reason})
	}
	return out
}
