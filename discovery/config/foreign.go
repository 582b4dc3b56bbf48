package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/internal/spelling"
)

// foreign judges an object of a kind that is not served. An object that was probably meant to be of a served kind is
// refused, under the key of that kind. Any other object is ignored, with a warning.
// kind is the kind that was meant.
func foreign(e envelope) (kind, key string, problems []Problem) {
	in, version, _ := strings.Cut(e.apiVersion, "/")
	p := Problem{Line: e.meta.Origin.Line, Severity: Error, Object: title(e.meta)}
	meant := e.meta
	near := spelling.Nearest(e.kind, kindNames())
	switch {
	case e.kind == "ServiceAccount" && e.apiVersion == "v1": // pods and their templates name it; only that name is used
		return "", "", nil
	case slices.Contains(kindNames(), e.kind) && (istios(in) || nearGroup(e.apiVersion)):
		p.Path, p.Line = "apiVersion", e.line["apiVersion"]
		p.Message = fmt.Sprintf("is %q, want %s", e.apiVersion, bestOf(e.kind))
	case near != "" && in == groupOf(near) && slices.Contains(versions(near), version):
		meant.Kind, p.Path, p.Line = near, "kind", e.line["kind"]
		p.Message = fmt.Sprintf("is %q, did you mean %s?", e.kind, near)
	case istios(in) && e.kind != "EnvoyFilter":
		p.Path, p.Line = "kind", e.line["kind"]
		p.Message = fmt.Sprintf("is %q, want one of %s", e.kind, strings.Join(kindNames(), ", "))
	default:
		p.Severity, p.Message = Warning, fmt.Sprintf("%s of %s is not supported, ignored", e.kind, e.apiVersion)
		return "", "", []Problem{p}
	}
	if meant.Name != "" && meant.Namespace != "" {
		key = meant.Key()
	}
	return meant.Kind, key, []Problem{p}
}

// nearGroup reports whether an apiVersion is probably meant to be Istio's. Other groups have kinds of the same names,
// such as Gateway of gateway.networking.k8s.io.
func nearGroup(apiVersion string) bool {
	in, _, found := strings.Cut(apiVersion, "/")
	return !found || !strings.HasSuffix(in, ".k8s.io") && spelling.Nearest(in, []string{group, securityGroup}) != ""
}

// istios reports whether a group is one of Istio's whose kinds are served.
func istios(in string) bool { return in == group || in == securityGroup }
