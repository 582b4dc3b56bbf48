package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	security "istio.io/api/security/v1beta1"
	typev1beta1 "istio.io/api/type/v1beta1"
)

// If several objects have the same kind, namespace and name, only the first is used: the older, then that of the source or file
// whose name sorts first. Each other one has a note that names the one in use. A policy may keep somebody out, so a second one
// of its name closes what it selects: see StandIn.

// twin is an object that is not used, the one that is used instead, and what stands for it next to that; nil for nothing.
type twin struct{ object, used, stands *Object }

// twinOf is what a twin's stand-in depends on.
type twinOf struct {
	before, object *Object
	number         int // 2 for the second of a name
}

func (t twinOf) Same(o twinOf) bool { return t == o }

func (t twinOf) standIn() *Object {
	out := StandIn(t.before, t.object)
	if out != nil {
		out.Name = fmt.Sprintf("%s#%d", out.Name, t.number) // no object has such a name
	}
	return out
}

// addObjects stores objects, which are sorted by age, and returns those that are used.
func (m *Mesh) addObjects(objects []*Object) []*Object {
	m.objects, m.twins = objects, map[string]int{}
	known := make(map[string]*Object, len(objects))
	last := map[string]*Object{} // by key: what a further one stands next to
	for _, o := range objects {
		key := o.Key()
		first, twice := known[key]
		if !twice {
			known[key] = o
			continue
		}
		m.twins[key]++
		t, of := twin{object: o, used: first}, twinOf{cmp.Or(last[key], first), o, m.twins[key] + 1}
		if t.stands = Recall(m.memory, fmt.Sprintf("twin %d of %s", of.number, key), of, twinOf.standIn); t.stands != nil {
			last[key] = t.stands
		}
		m.unused = append(m.unused, t)
	}
	return m.used()
}

// used returns the objects from which the mesh is made, oldest first. What stands for a twin comes before the object that is
// used, as of several PeerAuthentications for a workload the first counts.
func (m *Mesh) used() []*Object {
	if len(m.unused) == 0 {
		return m.objects
	}
	skipped, before := map[*Object]bool{}, map[string][]*Object{}
	for _, t := range m.unused {
		if skipped[t.object] = true; t.stands != nil {
			before[t.object.Key()] = append(before[t.object.Key()], t.stands)
		}
	}
	out := make([]*Object, 0, len(m.objects))
	for _, o := range m.objects {
		if skipped[o] {
			continue
		}
		for _, s := range slices.Backward(before[o.Key()]) {
			out = append(out, s)
		}
		out = append(out, o)
	}
	return out
}

// objectsInTwoPlaces adds a note for each object that is not used because another one has its name.
func (j *judge) objectsInTwoPlaces() {
	for _, t := range j.mesh.unused {
		j.conflict(t.object.Meta, t.used.Meta, "", "another one has this name, at %s, which is older or comes first: %s",
			cmp.Or(t.used.Origin.String(), "a place that is not known"), TwinEffect(t.used, t.object))
	}
}

// Twins reports whether two objects of one name have the same effect.
func Twins(a, b *Object) bool {
	x, known := a.Spec.(proto.Message)
	y, also := b.Spec.(proto.Message)
	return known && also && proto.Equal(x, y) && a.DryRun == b.DryRun && a.Closed == b.Closed && a.WholeHosts == b.WholeHosts &&
		(isPolicy(a) || maps.Equal(a.Labels, b.Labels))
}

func isPolicy(o *Object) bool {
	switch o.Spec.(type) {
	case *security.AuthorizationPolicy, *security.RequestAuthentication, *security.PeerAuthentication:
		return true
	}
	return false
}

// StandIn returns what counts next to the first policy of a name for a second one, o: the rules of DENY and CUSTOM as they are;
// of ALLOW an allowance of nobody; of RequestAuthentication rules that accept no token; of PeerAuthentication the stricter mode
// of both for each port. Each has the second one's selector. It returns nil where the first is all that counts.
func StandIn(first, o *Object) *Object {
	if Twins(first, o) {
		return nil
	}
	out := *o
	switch spec := o.Spec.(type) {
	case *security.AuthorizationPolicy:
		switch {
		case o.DryRun, spec.Action == security.AuthorizationPolicy_AUDIT: // they keep nobody out
			return nil
		case spec.Action == security.AuthorizationPolicy_ALLOW:
			out.Spec = &security.AuthorizationPolicy{Selector: spec.Selector}
		}
	case *security.RequestAuthentication:
		if len(spec.JwtRules) == 0 {
			return nil
		}
		closed := &security.RequestAuthentication{Selector: spec.Selector}
		for _, r := range spec.JwtRules {
			closed.JwtRules = append(closed.JwtRules, &security.JWTRule{FromHeaders: r.GetFromHeaders(), FromParams: r.GetFromParams(), FromCookies: r.GetFromCookies()})
		}
		out.Spec = closed
	case *security.PeerAuthentication:
		was := first.Spec.(*security.PeerAuthentication)
		both := stricter(was, spec)
		if len(spec.GetSelector().GetMatchLabels()) == 0 && (len(was.GetSelector().GetMatchLabels()) > 0 || first.ofAny()) {
			both.Selector, out.Closed = &typev1beta1.WorkloadSelector{}, true // see ofAny: the first does not go before it
		}
		out.Spec = both
	default:
		return nil
	}
	return &out
}

// stricter returns a policy for the second's selector with the stricter mode of both for each port.
func stricter(a, b *security.PeerAuthentication) *security.PeerAuthentication {
	type mode = security.PeerAuthentication_MutualTLS_Mode
	of := func(a, b mode) *security.PeerAuthentication_MutualTLS {
		switch {
		case a == b:
		case a == security.PeerAuthentication_MutualTLS_STRICT || b == security.PeerAuthentication_MutualTLS_STRICT:
			a = security.PeerAuthentication_MutualTLS_STRICT
		case a == security.PeerAuthentication_MutualTLS_UNSET || b == security.PeerAuthentication_MutualTLS_UNSET: // a wider policy may be STRICT
			a = security.PeerAuthentication_MutualTLS_UNSET
		default:
			a = security.PeerAuthentication_MutualTLS_PERMISSIVE
		}
		return &security.PeerAuthentication_MutualTLS{Mode: a}
	}
	at := func(p *security.PeerAuthentication, port uint32) mode {
		if own := p.PortLevelMtls[port].GetMode(); own != security.PeerAuthentication_MutualTLS_UNSET {
			return own
		}
		return p.GetMtls().GetMode()
	}
	out := &security.PeerAuthentication{Selector: b.Selector, Mtls: of(a.GetMtls().GetMode(), b.GetMtls().GetMode())}
	for _, levels := range []map[uint32]*security.PeerAuthentication_MutualTLS{a.PortLevelMtls, b.PortLevelMtls} {
		for port := range levels {
			if out.PortLevelMtls == nil {
				out.PortLevelMtls = map[uint32]*security.PeerAuthentication_MutualTLS{}
			}
			out.PortLevelMtls[port] = of(at(a, port), at(b, port))
		}
	}
	return out
}

// TwinEffect describes what becomes of a second object of one name.
func TwinEffect(first, o *Object) string {
	if Twins(first, o) {
		return "both are the same"
	}
	if StandIn(first, o) == nil {
		return "this one is not used"
	}
	switch spec := o.Spec.(type) {
	case *security.RequestAuthentication:
		return "no token is accepted at the workloads that this one selects"
	case *security.PeerAuthentication:
		return "at the workloads that this one selects the stricter mode of both counts"
	case *security.AuthorizationPolicy:
		if spec.Action == security.AuthorizationPolicy_ALLOW {
			return "this one allows nobody at the workloads that it selects"
		}
	}
	return "the rules of both count"
}
