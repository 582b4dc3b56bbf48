package config

import (
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// The rules that several kinds share. Each speaks at the field it is given.

var (
	dnsLabel   = regexp.MustCompile(`^[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?$`)
	labelName  = regexp.MustCompile(`^[a-zA-Z0-9]([-_.a-zA-Z0-9]*[a-zA-Z0-9])?$`)
	headerName = regexp.MustCompile("^:?[-!#$%&'*+.^_`|~0-9a-zA-Z]+$") // RFC 9110, section 5.1, and HTTP/2's own
	digits     = regexp.MustCompile(`^[0-9]+$`)
)

// required reports whether there is anything.
func (f field) required(n int) bool {
	if n == 0 {
		f.errorf("is missing")
	}
	return n > 0
}

// host wants a name of dot-separated DNS labels, which may be short; with wildcard "*." may begin it.
func (f field) host(host string, wildcard bool) {
	rest, found := strings.CutPrefix(host, "*.")
	labels := strings.Split(rest, ".")
	bad := slices.ContainsFunc(labels, func(l string) bool { return !f.isLabel(l) })
	switch {
	case host == "":
		f.errorf("is missing")
	case host == "*":
		f.errorf("is \"*\", want the name of a host")
	case found && !wildcard:
		f.errorf("is %q, want a name without a wildcard", host)
	case len(host) > 253, bad, digits.MatchString(labels[len(labels)-1]):
		f.errorf("is %q, want DNS labels of letters, digits and '-' between dots", host)
	}
}

func (field) isLabel(s string) bool { return len(s) <= 63 && dnsLabel.MatchString(s) }

func (f field) label(name string) {
	switch {
	case name == "":
		f.errorf("is missing")
	case !f.isLabel(name):
		f.errorf("is %q, want letters, digits and '-', at most 63", name)
	}
}

func (f field) port(n uint32) {
	if n < 1 || n > 65535 {
		f.errorf("is %d, want a port, 1 to 65535", n)
	}
}

func (f field) protocol(name string) {
	if _, ok := model.ParseProtocol(name); !ok {
		f.errorf("is %q, which is not supported, want HTTP, HTTP2, GRPC or TCP", name)
	}
}

func (f field) ip(address string) {
	if _, err := netip.ParseAddr(address); err != nil {
		f.errorf("is %q, want an IP address", address)
	}
}

// labels wants Kubernetes' form of labels: prefix/name and a short value.
func (f field) labels(labels map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		prefix, name, found := strings.Cut(key, "/")
		if !found {
			prefix, name = "", key
		}
		if len(name) > 63 || !labelName.MatchString(name) || found && !objectName.MatchString(prefix) {
			f.at(key).errorf("the label's name is %q, want letters, digits, '-', '_' and '.', at most 63", key)
		}
		if value := labels[key]; len(value) > 63 || value != "" && !labelName.MatchString(value) {
			f.at(key).errorf("is %q, want letters, digits, '-', '_' and '.', at most 63", value)
		}
	}
}

// regex wants what Envoy's RE2 takes, of Istio's length at most.
func (f field) regex(pattern string) {
	if len(pattern) > 1024 {
		f.errorf("is %d bytes long, want at most 1024", len(pattern))
	}
	if _, err := regexp.Compile(pattern); err != nil {
		f.errorf("is not a regular expression of RE2: %v", err)
	}
}

// timeout wants whole milliseconds; 0 is none.
func (f field) timeout(d *durationpb.Duration) {
	if d == nil {
		return
	}
	if t := d.AsDuration(); t < 0 || t%time.Millisecond != 0 {
		f.errorf("is %v, want whole milliseconds, or 0s for none", t)
	}
}

// exportTo is not served: everything is visible everywhere, which "*" asks for.
func (f field) exportTo(namespaces []string) {
	for i, namespace := range namespaces {
		if namespace != "*" {
			f.item(i).warnf("exportTo %q is not supported, ignored: the object is visible in every namespace", namespace)
		}
	}
}

// unique tells of a second use of a name.
type unique map[string]bool

func (u unique) add(f field, name string) {
	if u[name] {
		f.errorf("is %q, which is there already", name)
	}
	u[name] = true
}
