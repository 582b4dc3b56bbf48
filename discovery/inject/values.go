package inject

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Checks of values, by the rules of pod-init and the agent. Each returns the fault, or nil.

// isBool accepts what Istio does: true, True, TRUE, t, T, 1, and the same of false.
func isBool(s string) error {
	if _, err := strconv.ParseBool(s); err != nil {
		return fmt.Errorf("is %.40q, want true or false", s)
	}
	return nil
}

func isTrue(s string) bool { on, _ := strconv.ParseBool(s); return on }

func isMode(s string) error { return isOneOf(s, "REDIRECT", "TPROXY", "NONE") }

func isLogLevel(s string) error {
	return isOneOf(s, "trace", "debug", "info", "warning", "warn", "error", "err", "critical", "off")
}

func isOneOf(s string, words ...string) error {
	if !slices.Contains(words, s) {
		return fmt.Errorf("is %.40q, want one of %s", s, strings.Join(words, ", "))
	}
	return nil
}

func isPort(s string) error {
	if n, err := strconv.ParseUint(s, 10, 16); err != nil || n == 0 || s[0] == '0' || s[0] == '+' {
		return fmt.Errorf("is %.40q, want a port, 1 to 65535", s)
	}
	return nil
}

func isAddress(s string) error {
	colon := strings.LastIndexByte(s, ':')
	if colon < 1 || isPort(s[colon+1:]) != nil {
		return fmt.Errorf("is %.80q, want host:port", s)
	}
	host := s[:colon]
	if inside, bracketed := strings.CutPrefix(host, "["); bracketed {
		if _, err := netip.ParseAddr(strings.TrimSuffix(inside, "]")); err != nil || !strings.HasSuffix(inside, "]") {
			return fmt.Errorf("is %.80q, want host:port, such as [::1]:15010", s)
		}
	} else if strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || strings.ContainsRune("$/:[]", r) || r >= 0x7f }) {
		return fmt.Errorf("is %.80q, want host:port", s)
	}
	return nil
}

const longestDrain = time.Hour // of the agent

func isDuration(s string) error {
	if d, err := time.ParseDuration(s); err != nil || d < 0 || d > longestDrain {
		return fmt.Errorf("is %.40q, want a duration such as 45s, at most 1h", s)
	}
	return nil
}

func isWholeSeconds(s string) error {
	if d, err := time.ParseDuration(s); err != nil || d < time.Second || d > longestDrain || d%time.Second != 0 {
		return fmt.Errorf("is %.40q, want whole seconds such as 45s, 1s to 1h", s)
	}
	return nil
}

func isNumber(s string) error {
	if n, err := strconv.ParseInt(s, 10, 32); err != nil || n < 0 || s[0] == '+' {
		return fmt.Errorf("is %.40q, want a whole number", s)
	}
	return nil
}

// isText accepts texts without control characters, which can be one argument and a part of a log line.
func isText(s string) error {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("%.60q has control characters", s)
	}
	return nil
}

func isImage(s string) error {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fmt.Errorf("is %.80q, want the name of an image", s)
	}
	return nil
}

// literal escapes a text for an argument or variable, in which Kubernetes replaces $(NAME) and $$.
func literal(s string) string { return strings.ReplaceAll(s, "$", "$$") }

// Checks of the lists that pod-init gets. Its validate.sh has the same rules, and a test compares both: a value that is
// accepted here and refused there would keep the Pod in Init:CrashLoopBackOff. Each returns the list as pod-init gets it,
// without blanks around its items.

func arePorts(s string) (string, error)      { return list(s, isPorts) }
func areRanges(s string) (string, error)     { return list(s, isRange) }
func areInterfaces(s string) (string, error) { return list(s, isInterface) }

// allOr accepts * too, which stands for everything.
func allOr(check func(string) (string, error)) func(string) (string, error) {
	return func(s string) (string, error) {
		if trimmed(s) == "*" {
			return "*", nil
		}
		return check(s)
	}
}

func trimmed(s string) string { return strings.Trim(s, " \t\r\n") }

// list checks the items of a list. A comma at its end is no item.
func list(s string, check func(string) error) (string, error) {
	text := strings.TrimSuffix(trimmed(s), ",")
	if text == "" && trimmed(s) == "" {
		return "", nil
	}
	items := strings.Split(text, ",")
	for n, item := range items {
		items[n] = trimmed(item)
		if items[n] == "" {
			return "", fmt.Errorf("is %.60q, which has an empty item", s)
		}
		if items[n] == "*" {
			return "", fmt.Errorf("is %.60q: * is possible in includeInboundPorts and includeOutboundIPRanges alone; empty, they redirect nothing", s)
		}
		if err := check(items[n]); err != nil {
			return "", err
		}
	}
	return strings.Join(items, ","), nil
}

func isPorts(item string) error {
	first, last, isRange := strings.Cut(item, "-")
	if isPort(first) != nil {
		return fmt.Errorf("%.40q is no port: want ports, or ranges such as 8000-8010, with commas between them", item)
	}
	if !isRange {
		return nil
	}
	if isPort(last) != nil {
		return fmt.Errorf("%.40q is no range of ports", item)
	}
	from, _ := strconv.Atoi(first)
	if to, _ := strconv.Atoi(last); from > to {
		return fmt.Errorf("%.40q is no range of ports: its first port is above its last", item)
	}
	return nil
}

func isRange(item string) error {
	_, notRange := netip.ParsePrefix(item)
	address, notAddress := netip.ParseAddr(item)
	// No rule of IPv6 is made of an address that ends as one of IPv4 is written.
	if notRange != nil && (notAddress != nil || address.Zone() != "") || strings.Contains(item, ":") && strings.Contains(item, ".") {
		return fmt.Errorf("%.60q is no range: want CIDRs or addresses, such as 10.0.0.0/8 or fd00::/8, with commas between them", item)
	}
	return nil
}

var interfaceName = regexp.MustCompile(`^[A-Za-z0-9._@][A-Za-z0-9._@-]{0,14}$`)

func isInterface(item string) error {
	if !interfaceName.MatchString(item) {
		return fmt.Errorf("%.40q is no name of a network interface", item)
	}
	return nil
}

// groups are those that our image has.
var groupForm = regexp.MustCompile(`^([0-9]{1,10}|root|istio-proxy)$`)

func isGroup(item string) error {
	if n, _ := strconv.ParseUint(item, 10, 64); !groupForm.MatchString(item) || n > 1<<32-2 || len(item) > 1 && item[0] == '0' {
		return fmt.Errorf("%.40q is no group of the image: want ids, 0 to 4294967294, root or istio-proxy", item)
	}
	return nil
}

func areGroups(s string) (string, error) { return list(s, isGroup) }

// redirecting are the variables of proxyMetadata that pod-init reads and no flag of the injector overrides.
func redirecting(name, text string) error {
	if text == "" {
		return nil // its default
	}
	var err error
	switch name {
	case "ISTIO_META_DNS_CAPTURE", "INVALID_DROP":
		err = isBool(text)
	case "ISTIO_INBOUND_TPROXY_MARK":
		err = isBetween(text, 1, 1<<32-1)
	case "ISTIO_INBOUND_TPROXY_ROUTE_TABLE":
		err = isBetween(text, 1, 252)
	case "ISTIO_OUTBOUND_OWNER_GROUPS":
		if text != "*" {
			_, err = areGroups(text)
		}
	case "ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE":
		_, err = areGroups(text)
	case "ISTIO_OUTBOUND_PORTS", "ISTIO_LOCAL_OUTBOUND_PORTS_EXCLUDE":
		_, err = arePorts(text)
	case "KUBEVIRT_INTERFACES", "ISTIO_EXCLUDE_INTERFACES":
		_, err = areInterfaces(text)
	case "POD_INIT_BACKEND":
		err = isOneOf(text, "nft", "iptables")
	}
	return err
}

func isBetween(s string, low, high uint64) error {
	if n, err := strconv.ParseUint(s, 10, 64); err != nil || n < low || n > high || s[0] == '0' || s[0] == '+' {
		return fmt.Errorf("is %.40q, want a number, %d to %d", s, low, high)
	}
	return nil
}

var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

func isName(s string) error {
	if !nameForm.MatchString(s) {
		return fmt.Errorf("is %.60q, want the name of an object", s)
	}
	return nil
}

// userVolumes reads volumes: an object of sources by name, or a list of volumes. Istio's users write both.
func userVolumes(w *annotations, text string) error {
	items, err := byName[corev1.Volume](text)
	w.volumes = items
	return err
}

func userMounts(w *annotations, text string) error {
	items, err := byName[corev1.VolumeMount](text)
	w.mounts = items
	return err
}

// byName reads {NAME: {…}}, or [{name: NAME, …}], and checks the items with the type T.
func byName[T any](text string) ([]any, error) {
	var found any
	if err := yaml.Unmarshal([]byte(text), &found); err != nil {
		return nil, fmt.Errorf("is no JSON: %w", err)
	}
	items, isList := found.([]any)
	if table, ok := found.(map[string]any); ok {
		for _, name := range slices.Sorted(maps.Keys(table)) {
			item, _ := clone(table[name]).(map[string]any)
			if item == nil {
				return nil, fmt.Errorf("%.60q: want an object", name)
			}
			item["name"] = name
			items = append(items, item)
		}
	} else if !isList {
		return nil, fmt.Errorf(`is %.60q, want {"NAME": {…}}`, text)
	}
	for _, item := range items {
		data, err := yaml.Marshal(item)
		if err != nil {
			return nil, err
		}
		var typed T
		if err := yaml.UnmarshalStrict(data, &typed); err != nil {
			return nil, fmt.Errorf("is not understood: %w", err)
		}
		o, _ := item.(map[string]any)
		if name, _ := o["name"].(string); isName(name) != nil {
			return nil, fmt.Errorf("the name %.60q: want one of letters, digits and -", name)
		}
	}
	return items, nil
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// longestVariable is the length of a variable and its value with which Linux still starts a program: 32 pages, with = and
// the zero byte.
const longestVariable = 32*4096 - 2
