package model

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
)

// addVirtualServices takes objects oldest first. One without hosts is a delegate: it only counts where another leads
// to it.
func (m *Mesh) addVirtualServices(objects []*Object) {
	delegates := map[string]*Object{}
	for _, o := range objects {
		if len(o.Spec.(*networking.VirtualService).Hosts) == 0 {
			delegates[o.Namespace+"/"+o.Name] = o
		}
	}
	for _, o := range objects {
		spec := o.Spec.(*networking.VirtualService)
		if len(spec.Hosts) == 0 {
			continue
		}
		inputs := []any{o}
		for i, route := range spec.Http {
			if route.Delegate != nil {
				child := delegates[delegateKey(route.Delegate, o.Namespace)]
				if child == nil {
					m.note(o.Meta, index("spec.http", i)+".delegate",
						"VirtualService %s does not exist, or is not a delegate",
						delegateKey(route.Delegate, o.Namespace))
				}
				inputs = append(inputs, child)
			}
		}
		m.virtualServices = append(m.virtualServices,
			Recall(m.memory, o.Key(), inputs, func() *Config[*networking.VirtualService] {
				return &Config[*networking.VirtualService]{o.Meta, m.resolve(o, delegates)}
			}))
	}
}

func delegateKey(d *networking.Delegate, namespace string) string {
	if d.Namespace != "" {
		namespace = d.Namespace
	}
	return namespace + "/" + d.Name
}

// resolve qualifies names and puts the routes of delegates in the place of those that lead to them.
func (m *Mesh) resolve(o *Object, delegates map[string]*Object) *networking.VirtualService {
	out := qualifyVirtualService(o.Spec.(*networking.VirtualService), o.Namespace)
	var routes []*networking.HTTPRoute
	for _, root := range out.Http {
		if root.Delegate == nil {
			routes = append(routes, root)
			continue
		}
		child, ok := delegates[delegateKey(root.Delegate, o.Namespace)]
		if !ok || !Visible(child.Spec.(*networking.VirtualService).ExportTo, child.Namespace, o.Namespace) {
			continue
		}
		rules := qualifyVirtualService(child.Spec.(*networking.VirtualService), child.Namespace)
		for _, route := range rules.Http {
			if merged := mergeRoute(root, route); merged != nil {
				routes = append(routes, merged)
			}
		}
	}
	out.Http = routes
	return out
}

// mergeRoute returns a delegate's route under the conditions of the root's, and with what the root says beside the
// destination. Nil where the conditions exclude each other, or the delegate delegates again.
func mergeRoute(root, child *networking.HTTPRoute) *networking.HTTPRoute {
	if child.Delegate != nil {
		return nil
	}
	matches, possible := mergeMatches(root.Match, child.Match)
	if !possible {
		return nil
	}
	out := proto.CloneOf(child)
	out.Match = matches
	if root.Name != "" {
		out.Name = strings.TrimSuffix(root.Name+"-"+child.Name, "-")
	}
	overlay := proto.CloneOf(root)
	overlay.Match, overlay.Delegate, overlay.Name, overlay.Route = nil, nil, "", nil
	from, to := overlay.ProtoReflect(), out.ProtoReflect()
	for i := range from.Descriptor().Fields().Len() {
		if fd := from.Descriptor().Fields().Get(i); from.Has(fd) {
			to.Set(fd, from.Get(fd)) // what the root says holds for all that it delegates
		}
	}
	return out
}

func mergeMatches(root, child []*networking.HTTPMatchRequest) ([]*networking.HTTPMatchRequest, bool) {
	if len(root) == 0 || len(child) == 0 {
		return append(slices.Clone(root), child...), true
	}
	var out []*networking.HTTPMatchRequest
	for _, r := range root {
		for _, c := range child {
			if merged, ok := mergeMatch(r, c); ok {
				out = append(out, merged)
			}
		}
	}
	return out, len(out) > 0
}

// mergeMatch asks for both. Conditions on one field can only be joined where the delegate's is the narrower.
func mergeMatch(root, child *networking.HTTPMatchRequest) (*networking.HTTPMatchRequest, bool) {
	for _, pair := range [][2]*networking.StringMatch{
		{root.Uri, child.Uri},
		{root.Scheme, child.Scheme},
		{root.Method, child.Method},
		{root.Authority, child.Authority},
	} {
		if !narrows(pair[0], pair[1]) {
			return nil, false
		}
	}
	for _, pair := range [][2]map[string]*networking.StringMatch{
		{root.Headers, child.Headers},
		{root.WithoutHeaders, child.WithoutHeaders},
		{root.QueryParams, child.QueryParams},
	} {
		for name, m := range pair[0] {
			if other, both := pair[1][name]; both && !narrows(m, other) {
				return nil, false
			}
		}
	}
	if root.Port != 0 && child.Port != 0 && root.Port != child.Port ||
		root.SourceNamespace != "" && child.SourceNamespace != "" && root.SourceNamespace != child.SourceNamespace {
		return nil, false
	}
	out := proto.CloneOf(root)
	name := strings.Trim(root.Name+"-"+child.Name, "-")
	over := proto.CloneOf(child)
	if len(over.Gateways) > 0 {
		out.Gateways = nil
	}
	if over.Uri != nil {
		out.Uri = nil
	}
	if over.Scheme != nil {
		out.Scheme = nil
	}
	if over.Method != nil {
		out.Method = nil
	}
	if over.Authority != nil {
		out.Authority = nil
	}
	proto.Merge(out, over)
	out.Name = name
	return out, true
}

// narrows reports whether what child accepts is accepted by root as well.
func narrows(root, child *networking.StringMatch) bool {
	if root.GetMatchType() == nil || child.GetMatchType() == nil {
		return true
	}
	switch r := root.MatchType.(type) {
	case *networking.StringMatch_Prefix:
		switch c := child.MatchType.(type) {
		case *networking.StringMatch_Exact:
			return strings.HasPrefix(c.Exact, r.Prefix)
		case *networking.StringMatch_Prefix:
			return strings.HasPrefix(c.Prefix, r.Prefix)
		}
	case *networking.StringMatch_Exact:
		c, ok := child.MatchType.(*networking.StringMatch_Exact)
		return ok && c.Exact == r.Exact
	}
	return proto.Equal(root, child)
}
