package model

//lint:file-ignore SA1019 what Istio deprecates is read all the same: files still have it

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
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
		inputs := delegation{object: o}
		for _, route := range spec.Http {
			if route.Delegate == nil {
				continue
			}
			child := delegates[delegateKey(route.Delegate, o.Namespace)]
			if child != nil && !m.exportsRule(child.Meta, child.Spec.(*networking.VirtualService), o.Namespace) {
				child = nil
			}
			inputs.children = append(inputs.children, child)
		}
		m.virtualServices = append(m.virtualServices, Recall(m.memory, o.Key(), inputs, delegation.resolve))
	}
}

// delegation is a VirtualService, and the delegate of each of its routes that leads to one: nil where it does not see it.
type delegation struct {
	object   *Object
	children []*Object
}

func (d delegation) Same(o delegation) bool {
	return d.object == o.object && slices.Equal(d.children, o.children)
}

func delegateKey(d *networking.Delegate, namespace string) string {
	if d.Namespace != "" {
		namespace = d.Namespace
	}
	return namespace + "/" + d.Name
}

// resolve qualifies names and puts the routes of delegates in the place of those that lead to them.
func (d delegation) resolve() *Config[*networking.VirtualService] {
	out := qualifyVirtualService(d.object.Spec.(*networking.VirtualService), d.object.Namespace)
	var routes []*networking.HTTPRoute
	children := d.children
	for _, root := range out.Http {
		if root.Delegate == nil {
			routes = append(routes, root)
			continue
		}
		child := children[0]
		if children = children[1:]; child == nil {
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
	return &Config[*networking.VirtualService]{d.object.Meta, out}
}

// mergeRoute returns a delegate's route under the conditions of the root's, with what the root says and the delegate does
// not. Nil where the conditions exclude each other, or the delegate delegates again.
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
	from, to := root.ProtoReflect(), out.ProtoReflect()
	for i := range from.Descriptor().Fields().Len() {
		if fd := from.Descriptor().Fields().Get(i); from.Has(fd) && fills(child, fd.Name()) {
			to.Set(fd, from.Get(fd))
		}
	}
	return out
}

// fills reports whether a root's field counts for a route of a delegate: one beside the destination that the delegate leaves
// unset. Two fields that say one thing are one.
func fills(child *networking.HTTPRoute, field protoreflect.Name) bool {
	switch field {
	case "name", "match", "route", "redirect", "delegate":
		return false
	case "mirror", "mirrors":
		return child.Mirror == nil && len(child.Mirrors) == 0
	case "mirror_percent", "mirror_percentage":
		return child.MirrorPercent == nil && child.MirrorPercentage == nil
	}
	fields := child.ProtoReflect()
	return !fields.Has(fields.Descriptor().Fields().ByName(field))
}

// mergeMatches joins each of the delegate's conditions with those of the root that include it. False where one of them has
// none: Istio takes no part of such a route.
func mergeMatches(root, child []*networking.HTTPMatchRequest) ([]*networking.HTTPMatchRequest, bool) {
	if len(root) == 0 || len(child) == 0 {
		return append(slices.Clone(root), child...), true
	}
	var out []*networking.HTTPMatchRequest
	for _, c := range child {
		before := len(out)
		for _, r := range root {
			if merged, ok := mergeMatch(r, c); ok {
				out = append(out, merged)
			}
		}
		if len(out) == before {
			return nil, false
		}
	}
	return out, true
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
	for name, value := range root.SourceLabels {
		if other, both := child.SourceLabels[name]; both && other != value {
			return nil, false
		}
	}
	for _, gateway := range child.Gateways {
		if len(root.Gateways) > 0 && !slices.Contains(root.Gateways, gateway) {
			return nil, false
		}
	}
	if root.Uri != nil && child.Uri != nil && root.IgnoreUriCase != child.IgnoreUriCase ||
		root.Port != 0 && child.Port != 0 && root.Port != child.Port ||
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
