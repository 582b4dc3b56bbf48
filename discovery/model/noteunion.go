package model

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// registries adds notes about the parts of a declaration that are not used because a registry declares the same host in
// the same namespace. entries handles the case of two ServiceEntries.
func (j *judge) registries() {
	keys := slices.Collect(maps.Keys(j.mesh.contested))
	sort.Slice(keys, func(i, j int) bool {
		return cmp.Or(cmp.Compare(keys[i].host, keys[j].host), cmp.Compare(keys[i].namespace, keys[j].namespace)) < 0
	})
	for _, key := range keys {
		all := j.mesh.contested[key]
		for _, s := range all[1:] {
			switch {
			case all[0].Right != s.Right:
				j.conflict(j.declaredBy(s), j.declaredBy(all[0]), fieldOf(s, "hosts"), "%s is a host of %s: what %s says of it is not used", s.Host,
					j.ownerName(all[0]), s.place())
			case all[0].Registry != "":
				j.united(all, s)
			}
		}
	}
}

// united compares a declaration with that of the owner, a registered service; its addresses are compared with those
// used in its own cluster.
func (j *judge) united(all claimants, s *Service) {
	owner, loser := all[0], j.declaredBy(s)
	winner := j.declaredBy(owner)
	if what := apart(owner, s); what != "" {
		j.conflict(loser, winner, fieldOf(s, "hosts"), "%s is declared by %s, and with another %s: this declaration is not used for it", s.Host,
			owner.place(), what)
		return
	}
	for _, p := range s.Ports {
		if known, ok := owner.Port(p.Number); ok && known.Protocol != p.Protocol {
			j.conflict(loser, winner, fieldOf(s, "ports"), "%s:%d is %s by %s: this protocol, %s, is not used", s.Host, p.Number, known.Protocol,
				owner.place(), p.Protocol)
		}
	}
	addressed := all.addressed(s)
	for _, field := range []struct {
		name  string
		same  bool
		owner *Service
	}{
		{"exportTo", slices.Equal(owner.ExportTo, s.ExportTo), owner},
		{"addresses", len(s.Addresses) == 0 || slices.Equal(addressed.Addresses, s.Addresses), addressed},
		{"subjectAltNames", slices.Equal(owner.SubjectAltNames, s.SubjectAltNames) && slices.Equal(owner.Accounts, s.Accounts), owner},
		{"location", owner.External == s.External, owner},
	} {
		if !field.same {
			j.conflict(loser, j.declaredBy(field.owner), fieldOf(s, field.name), "%s is declared by %s: what that says of this counts", s.Host,
				field.owner.place())
		}
	}
}

// ignored adds notes about registered services whose record contains settings that are ignored.
// It returns those with a note.
func (j *judge) ignored() map[*Service]bool {
	told := map[*Service]bool{}
	for _, s := range j.mesh.services {
		if j.since.quiet(s) {
			continue
		}
		before := len(j.notes)
		if j.mesh.circular(s) {
			j.note(UnknownHost, j.declaredBy(s), "spec.externalName", "is %s, and leads back to a name before it: no address is found, and requests "+
				"are answered 503; want the name of a service", s.ExternalName)
		}
		if s.anyone() {
			j.noAccount(j.declaredBy(s), fieldOf(s, "endpoints"), s)
		}
		j.mixed(s)
		for _, what := range s.Ignored {
			field, _, _ := strings.Cut(what, " ")
			j.note(IgnoredField, j.declaredBy(s), field, "%s", what)
		}
		if len(j.notes) > before {
			told[s] = true
		}
	}
	return told
}

func (j *judge) noAccount(meta Meta, path string, s *Service) {
	j.note(NoAccount, meta, path, "clients speak mutual TLS to endpoints of %s, and none names an account: they accept every "+
		"certificate of the mesh; want serviceAccount, or subjectAltNames", s.Host)
}

// anyServer adds a note if a policy with ISTIO_MUTUAL has clients accept every certificate of the mesh.
func (j *judge) anyServer(meta Meta, host, path string, tls *networking.ClientTLSSettings) {
	if tls.GetMode() != networking.ClientTLSSettings_ISTIO_MUTUAL || len(tls.SubjectAltNames) > 0 {
		return
	}
	j.needs(needEndpoints, host)
	if s := j.mesh.Service(host); s != nil && len(s.Endpoints) > 0 && s.nameless() {
		j.noAccount(meta, path+".tls", s)
	}
}

// anyone reports whether clients that speak mutual TLS to the service accept every certificate of the mesh.
func (s *Service) anyone() bool {
	return !s.External && s.nameless() && slices.ContainsFunc(s.Endpoints, Endpoint.TakesMutualTLS)
}

// nameless reports whether Settings.SubjectsOfEndpoints has none.
func (s *Service) nameless() bool {
	for i := range s.Endpoints {
		if s.Endpoints[i].ServiceAccount != "" {
			return false
		}
	}
	return len(s.SubjectAltNames)+len(s.Accounts) == 0
}

// mixed adds a note about a headless service of which some instances take mutual TLS: clients dial an instance's address, and their proxies
// have one decision for all.
func (j *judge) mixed(s *Service) {
	if auto := j.mesh.settings.Config.GetEnableAutoMtls(); !s.Headless || s.External || auto != nil && !auto.Value {
		return
	}
	first, bare := "", 0
	for i := range s.Endpoints {
		if e := &s.Endpoints[i]; !e.TakesMutualTLS() {
			if bare++; first == "" {
				first = e.Address
			}
		}
	}
	if bare > 0 && bare < len(s.Endpoints) {
		j.note(MixedInstances, j.declaredBy(s), fieldOf(s, "endpoints"), "%d of %d instances of %s take no mutual TLS, one of them %s, and clients dial the address "+
			"of any: their proxies send plain text to all, which a STRICT one refuses; want a sidecar with a certificate at each", bare, len(s.Endpoints), s.Host, first)
	}
}

// fieldOf returns the path of a field: in a ServiceEntry, or in the record of a registry.
func fieldOf(s *Service, field string) string {
	if s.Registry == "" {
		return "spec." + field
	}
	return field
}

// declaredBy returns the object that declares a service.
func (j *judge) declaredBy(s *Service) Meta { return j.mesh.DeclaredBy(s) }

// place returns the name of a registered service for a message: "Kubernetes Service shop/reviews (cluster east)".
func (s *Service) place() string {
	out := s.Registry + " Service " + s.Namespace + "/" + cmp.Or(s.Name, s.Host)
	if s.Cluster != "" {
		out += " (cluster " + s.Cluster + ")"
	}
	return out
}

// entries adds notes about the parts of a ServiceEntry that are not used because another one declares the same host in
// the same namespace. Services of one host in two namespaces do not conflict: each namespace uses its own.
func (j *judge) entries() {
	owners := map[serviceKey]*Object{}
	for _, o := range j.mesh.used() {
		entry, ok := o.Spec.(*networking.ServiceEntry)
		if !ok {
			continue
		}
		for i, host := range entry.Hosts {
			key := serviceKey{strings.ToLower(host), o.Namespace}
			if winner, taken := owners[key]; taken {
				j.joined(winner, o, i)
			} else {
				owners[key] = o
			}
		}
	}
}

func (j *judge) joined(winner, o *Object, i int) {
	a, b := winner.Spec.(*networking.ServiceEntry), o.Spec.(*networking.ServiceEntry)
	host, older := b.Hosts[i], name(winner.Meta)+", which is older or comes first"
	if what := apart(compared(a), compared(b)); what != "" {
		j.conflict(o.Meta, winner.Meta, index("spec.hosts", i), "%s is declared by %s, and with another %s: this one is not used for it", host,
			older, what)
		return
	}
	for at, p := range b.Ports {
		first := slices.IndexFunc(a.Ports, func(known *networking.ServicePort) bool { return known.Number == p.Number })
		if first >= 0 && a.Ports[first].Protocol != p.Protocol {
			j.conflict(o.Meta, winner.Meta, index("spec.ports", at)+".protocol", "%s:%d is %s by %s: this protocol is not used", host, p.Number,
				a.Ports[first].Protocol, older)
		}
	}
	for _, field := range []struct {
		path string
		same bool
	}{
		{"spec.addresses", len(b.Addresses) == 0 || slices.Equal(a.Addresses, b.Addresses)},
		{"spec.subjectAltNames", slices.Equal(a.SubjectAltNames, b.SubjectAltNames)},
		{"spec.location", a.Location == b.Location},
	} {
		if !field.same {
			j.conflict(o.Meta, winner.Meta, field.path, "%s is declared by %s: what it says of this counts", host, older)
		}
	}
}

// compared returns the fields of a ServiceEntry that apart compares.
func compared(e *networking.ServiceEntry) *Service {
	return &Service{
		Resolution: Resolution(e.Resolution.String()), ExportTo: e.ExportTo, Selector: e.GetWorkloadSelector().GetLabels(),
	}
}
