package config

import (
	"net/url"
	"slices"
	"strings"

	security "istio.io/api/security/v1beta1"
)

// A value that no request has is no error, and a DENY that rests on it is an open door: so it is warned of, with what to write.

// doubtful warns of such values of an operation.
func (f field) doubtful(o *security.Operation, action security.AuthorizationPolicy_Action) {
	for name, list := range inOrder(map[string][]string{"methods": o.Methods, "notMethods": o.NotMethods}) {
		for i, v := range list {
			if v != strings.ToUpper(v) {
				f.at(name).item(i).warnf("is %q, and methods are compared as they are: no usual one has small letters; want %s", v, strings.ToUpper(v))
			}
		}
	}
	for name, list := range inOrder(map[string][]string{"paths": o.Paths, "notPaths": o.NotPaths}) {
		for i, v := range list {
			f.at(name).item(i).doubtfulPath(v)
		}
	}
	for name, list := range inOrder(map[string][]string{"hosts": o.Hosts, "notHosts": o.NotHosts}) {
		for i, v := range list {
			at := f.at(name).item(i)
			allowed := action == security.AuthorizationPolicy_ALLOW || action == security.AuthorizationPolicy_AUDIT
			switch {
			case strings.HasSuffix(v, ".") && v != ".":
				at.warnf("is %q, and gateways remove the dot at the end: want %s", v, strings.TrimSuffix(v, "."))
			case allowed || name == "notHosts" || strings.ContainsAny(v, ":*"):
			case !slices.Contains(list, v+":*") && !slices.Contains(list, v+"*"):
				at.warnf("is %q, and no request matches it whose host names a port, such as %s:8080: want %s:* too", v, v, v)
			}
		}
	}
}

func (f field) doubtfulPath(v string) {
	bare, _, query := strings.Cut(v, "?")
	escaped := strings.ReplaceAll((&url.URL{Path: v}).EscapedPath(), "%2A", "*")
	switch {
	case v == "" || strings.Contains(v, "{"):
	case !strings.HasPrefix(v, "/") && !strings.HasPrefix(v, "*"):
		f.warnf("is %q, and paths begin with /: no request has it; want /%s", v, v)
	case query:
		f.warnf("is %q, and paths are compared without the query: no request has it; want %s", v, bare)
	case strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r > '~' }):
		f.warnf("is %q, and paths are compared as they are escaped: no request has it; want %s", v, strings.ReplaceAll(escaped, "%25", "%"))
	case strings.Contains(v+"/", "/../") || strings.Contains(v+"/", "/./"):
		f.warnf("is %q, and the segments . and .. are removed before paths are compared: no request has it; want a path without", v)
	}
}

// doubtfulPrincipals warns of names that do not begin with a trust domain.
func (f field) doubtfulPrincipals(name string, list []string) {
	for i, v := range list {
		v = strings.TrimPrefix(v, "spiffe://")
		switch at := f.at(name).item(i); {
		case strings.HasPrefix(v, "/") || strings.HasPrefix(v, "ns/") || strings.HasPrefix(v, "sa/"):
			at.warnf("is %q, and principals begin with a trust domain: no client has it; want cluster.local/ns/NAMESPACE/sa/ACCOUNT, or */ns/NAMESPACE/sa/ACCOUNT", v)
		case v != "" && !strings.ContainsAny(v, "/*"):
			at.warnf("is %q, and principals are TRUSTDOMAIN/ns/NAMESPACE/sa/ACCOUNT: no client has it; want */sa/%s for an account of any namespace", v, v)
		}
	}
}
