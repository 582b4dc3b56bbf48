package model

//lint:file-ignore SA1019 what Istio deprecates is read all the same: files still have it

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	networking "istio.io/api/networking/v1alpha3"
)

// addVirtualServices adds VirtualServices, oldest first. A VirtualService without hosts is a delegate: it has an effect
// only if the route of another VirtualService delegates to it.
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
		m.virtualServices = append(m.virtualServices, Recall(m.memory, o.Key(), m.delegationOf(o, delegates), delegation.resolve))
	}
}

// delegationOf returns a VirtualService with its delegates, which are of delegates, by namespace and name.
func (m *Mesh) delegationOf(o *Object, delegates map[string]*Object) delegation {
	out := delegation{domain: m.settings.Domain, object: o}
	for _, route := range o.Spec.(*networking.VirtualService).Http {
		if route.Delegate == nil {
			continue
		}
		child := delegates[delegateKey(route.Delegate, o.Namespace)]
		if child != nil && !m.exportsRule(child.Meta, child.Spec.(*networking.VirtualService), o.Namespace) {
			child = nil
		}
		out.children = append(out.children, child)
	}
	return out
}

// delegation is a VirtualService with the delegate of each of its delegating routes; the delegate is nil if it does not
// exist or is not visible.
type delegation struct {
	domain   Domain
	object   *Object
	children []*Object
}

func (d delegation) Same(o delegation) bool {
	return d.domain == o.domain && d.object == o.object && slices.Equal(d.children, o.children)
}

func delegateKey(d *networking.Delegate, namespace string) string {
	if d.Namespace != "" {
		namespace = d.Namespace
	}
	return namespace + "/" + d.Name
}

// resolve qualifies names and replaces each delegating route by the routes of its delegate.
func (d delegation) resolve() *Config[*networking.VirtualService] {
	out := d.domain.qualifyVirtualService(d.object.Spec.(*networking.VirtualService), d.object.Meta)
	var routes []*networking.HTTPRoute
	d.each(out.Http, func(route *networking.HTTPRoute, _ Meta, _ int) { routes = append(routes, route) })
	out.Http = routes
	return &Config[*networking.VirtualService]{d.object.Meta, out}
}

// each calls yield for every route, with the object that has it, the VirtualService or a delegate, and its index there. own are the routes
// of the VirtualService with qualified names.
func (d delegation) each(own []*networking.HTTPRoute, yield func(route *networking.HTTPRoute, of Meta, index int)) {
	children := d.children
	for i, root := range own {
		if root.Delegate == nil {
			yield(root, d.object.Meta, i)
			continue
		}
		child := children[0]
		if children = children[1:]; child == nil {
			continue
		}
		rules := d.domain.qualifyVirtualService(child.Spec.(*networking.VirtualService), child.Meta)
		for k, route := range rules.Http {
			if merged := mergeRoute(root, route); merged != nil {
				yield(merged, child.Meta, k)
			}
		}
	}
}

// mergeRoute returns a delegate's route, restricted by the conditions of the root's route. Fields that the delegate
// leaves unset are taken from the root. It returns nil if the conditions exclude each other, or if the delegate's route
// delegates again.
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

// fills reports whether the root's value of a field is used in the delegate's route: the delegate leaves the field
// unset, and the field is not part of the destination. The old and the new spelling of one setting (mirror and mirrors)
// count as one field.
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

// mergeMatches combines each condition of the delegate with the root's conditions that include it. It returns false if
// one of the delegate's conditions is included in none: Istio then drops the whole route.
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

// mergeMatch returns a condition that requires both. Two conditions on one field can be combined only if the delegate's
// is the narrower one.
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

// narrows reports whether root accepts every value that child accepts.
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
