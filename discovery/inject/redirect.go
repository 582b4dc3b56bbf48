package inject

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

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
