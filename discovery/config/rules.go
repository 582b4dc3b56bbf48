package config

import (
	"iter"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// The rules that several kinds share. Each reports at the field it is given.

var (
	headerName = regexp.MustCompile("^:?[-!#$%&'*+.^_`|~0-9a-zA-Z]+$") // RFC 9110, section 5.1, and HTTP/2's own
	digits     = regexp.MustCompile(`^[0-9]+$`)

	probeHeader = regexp.MustCompile(`^[-_A-Za-z0-9]+$`) // Istio's
)

// required reports an error if n is 0, and returns whether it is not.
func (f field) required(n int) bool {
	if n == 0 {
		f.errorf("is missing")
	}
	return n > 0
}

// host requires a name of dot-separated DNS labels, which may be short; with wildcard a "*" may begin it.
func (f field) host(host string, wildcard bool) {
	rest, found := strings.CutPrefix(host, "*")
	if found { // the wildcard may stand for the first part of a label
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, "."), "-")
	}
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

// wholeWildcard reports a wildcard that stands for a part of a label: Istio takes it at no gateway and in no Sidecar.
func (f field) wholeWildcard(host string, severity Severity) {
	if strings.HasPrefix(host, "*") && host != "*" && !strings.HasPrefix(host, "*.") {
		f.add(severity, "is %q, want a whole label for the wildcard: *.NAME", []any{host})
	}
}

func (field) isLabel(s string) bool { return len(s) <= 63 && isWord(s, "-") }

// isWord reports whether s consists of letters and digits; the characters of others may be between the first and the
// last.
func isWord(s, others string) bool {
	alphanumeric := func(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' }
	for i := range len(s) {
		if !alphanumeric(s[i]) && (i == 0 || i == len(s)-1 || strings.IndexByte(others, s[i]) < 0) {
			return false
		}
	}
	return s != ""
}

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
	if _, ok := model.ParseProtocol(name); !ok && name != "" { // an empty one is detected
		f.errorf("is %q, want HTTP, HTTP2, GRPC, GRPC-WEB, HTTPS, TLS, TCP, MONGO, REDIS, MYSQL or UDP", name)
	}
}

func (f field) ip(address string) {
	if _, err := netip.ParseAddr(address); err != nil {
		f.errorf("is %q, want an IP address", address)
	}
}

// labels requires Kubernetes' form of labels: prefix/name and a short value.
func (f field) labels(labels map[string]string) {
	keys := make([]string, 0, 4) // few have more
	for key := range labels {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		prefix, name, found := strings.Cut(key, "/")
		if !found {
			prefix, name = "", key
		}
		if len(name) > 63 || !isWord(name, "-_.") || found && !objectName.MatchString(prefix) {
			f.key(key).errorf("the label's name is %q, want letters, digits, '-', '_' and '.', at most 63", key)
		}
		if value := labels[key]; len(value) > 63 || value != "" && !isWord(value, "-_.") {
			f.key(key).errorf("is %q, want letters, digits, '-', '_' and '.', at most 63", value)
		}
	}
}

// someLabels warns of a selector without labels: it selects more than it seems to.
func (f field) someLabels(labels map[string]string) {
	if len(labels) == 0 {
		f.warnf("has no labels: it selects every workload of its namespace")
	}
}

// timeout requires whole milliseconds; 0 is none.
func (f field) timeout(d *durationpb.Duration) {
	if d == nil {
		return
	}
	if t := d.AsDuration(); t < 0 || t%time.Millisecond != 0 {
		f.errorf("is %v, want whole milliseconds, or 0s for none", t)
	}
}

// duration requires at least a millisecond, in whole ones.
func (f field) duration(d *durationpb.Duration) {
	if d == nil {
		return
	}
	if t := d.AsDuration(); t < time.Millisecond || t%time.Millisecond != 0 {
		f.errorf("is %v, want at least 1ms, in whole milliseconds", t)
	}
}

// exportTo requires namespaces, "." for one's own, "*" for every, or "~" alone for none.
func (f field) exportTo(namespaces []string) {
	seen := unique{}
	for i, namespace := range namespaces {
		at := f.item(i)
		switch {
		case namespace == "*" && len(namespaces) > 1:
			at.errorf("is \"*\", which exports to every namespace, beside others")
		case namespace == "." || namespace == "*":
		case namespace == "~":
			if len(namespaces) > 1 {
				at.errorf("is \"~\", which exports to no namespace, beside others")
			}
		default:
			at.label(namespace)
		}
		seen.add(at, namespace)
		if namespace == f.report.namespace && seen["."] || namespace == "." && seen[f.report.namespace] {
			at.warnf("is %q, the object's own namespace, which is there already", namespace)
		}
	}
}

// subnet requires an IP address or a CIDR.
func (f field) subnet(s string) {
	_, err := netip.ParsePrefix(s)
	if _, ipErr := netip.ParseAddr(s); err != nil && ipErr != nil {
		f.errorf("is %q, want an IP address, or a range such as 10.0.0.0/8", s)
	}
}

// percent requires 0 to 100.
func (f field) percent(v float64) {
	if !(v >= 0 && v <= 100) {
		f.errorf("is %v, want 0 to 100", v)
	}
}

// count requires a number that is not negative; 0 means not set.
func (f field) count(n int32) {
	if n < 0 {
		f.errorf("is %d, want 0 or more", n)
	}
}

// filePath requires a path that a proxy can open.
func (f field) filePath(path string) {
	if strings.ContainsAny(path, "\x00\n") {
		f.errorf("is %q, want a path", path)
	}
}

// logPath requires a file that a proxy can write to.
func (f field) logPath(path string) {
	f.filePath(path)
	if strings.HasSuffix(path, "/") {
		f.errorf("is %q, want a file", path)
	}
}

// gateway requires the name of a Gateway, optionally with its namespace before a "/".
func (f field) gateway(name string) {
	namespace, rest, found := strings.Cut(name, "/")
	if !found {
		namespace, rest = "", name
	}
	if found && !f.isLabel(namespace) || !objectName.MatchString(rest) {
		f.errorf("is %q, want NAME or NAMESPACE/NAME", name)
	}
}

// inOrder yields a map's values by key, so that the same faults come in the same order.
func inOrder[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}

// unique reports a second use of a name.
type unique map[string]bool

func (u unique) add(f field, name string) {
	if u[name] {
		f.errorf("is %q, which is there already", name)
	}
	u[name] = true
}
