package acme

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sort"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Bounds of what is asked for.
const (
	MaxSets  = 1000 // of all namespaces, shared evenly between those of the Gateways
	maxHosts = 100  // of one certificate, the bound of public issuers
)

// Set is a certificate that gateways of a namespace need.
type Set struct {
	Namespace, Issuer string
	Hosts             []string // sorted
	Secrets           []string // names by which proxies request it, sorted
	NoHTTP            []string // those of Hosts that no connected gateway serves at port 80
	Places            []Place  // where it is named
}

// Place is a field of a Gateway.
type Place struct {
	Meta model.Meta
	Path string
}

// Key identifies a set.
func (s Set) Key() string { return s.Namespace + " " + s.Issuer + " " + strings.Join(s.Hosts, ",") }

// ID returns a short name of the set, the same at every time: 32 hexadecimal digits.
func (s Set) ID() string {
	sum := sha256.Sum256([]byte(s.Key()))
	return hex.EncodeToString(sum[:16])
}

// Owners returns the namespaces of the Gateways that name the set.
func (s Set) Owners() (out []string) {
	for _, p := range s.Places {
		out = append(out, p.Meta.Namespace)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Entitled returns those of the proxies that may have the certificates of issuers: by a proven identity, of the service accounts of
// their namespace; without one only where discovery sends private keys in plaintext. Others do not count as gateways: any program can
// open a stream and never accept what it is sent.
func Entitled(connected []model.Proxy, accounts map[string][]string) []model.Proxy {
	return slices.DeleteFunc(slices.Clone(connected), func(p model.Proxy) bool {
		return !p.Keys || p.Account != "" && !slices.Contains(accounts[p.Namespace], p.Account)
	})
}

// Wanted returns the sets that connected gateways of namespaces need, and notes about what none can be had for. The sets are in turn: one
// of each namespace of Gateways, then another of each, first those with a certificate. issuers are the names that may be used, held the keys of
// sets with a certificate or an order.
func Wanted(m *model.Mesh, connected []model.Proxy, namespaces, issuers []string, held map[string]bool) (sets []Set, notes []model.Note) {
	w := wanted{issuers: issuers, servers: map[string]*Set{}, served: map[string]bool{}}
	seen := map[string]bool{}
	for _, p := range connected {
		if at := fmt.Sprint(p.Namespace, p.Labels); p.Gateway && slices.Contains(namespaces, p.Namespace) && !seen[at] {
			seen[at] = true
			w.workload(m, p)
		}
	}
	all := w.sets()
	for _, key := range slices.Sorted(maps.Keys(all)) {
		s := all[key]
		for _, host := range s.Hosts {
			if !w.served[s.Namespace+" "+host] {
				s.NoHTTP = append(s.NoHTTP, host)
			}
		}
		slices.Sort(s.Secrets)
		s.Secrets = slices.Compact(s.Secrets)
		sets = append(sets, *s)
	}
	sets = inTurn(sets, held)
	for _, s := range sets[min(len(sets), MaxSets):] {
		notes = append(notes, s.notes(model.ACMEWaits, fmt.Sprintf("there are more than %d certificates to be issued, of which each namespace of Gateways has an equal share: this one is not asked for", MaxSets))...)
	}
	return sets[:min(len(sets), MaxSets)], append(notes, w.notes...)
}

func inTurn(sets []Set, held map[string]bool) []Set {
	sort.SliceStable(sets, func(i, j int) bool { return held[sets[i].Key()] && !held[sets[j].Key()] })
	turns, had := map[string]int{}, map[string]int{}
	for _, s := range sets {
		first := len(sets)
		for _, owner := range s.Owners() {
			first = min(first, had[owner])
			had[owner]++
		}
		turns[s.Key()] = first
	}
	sort.SliceStable(sets, func(i, j int) bool { return turns[sets[i].Key()] < turns[sets[j].Key()] })
	return sets
}

// Unknown returns a note for each server of a Gateway that names another issuer than these.
func Unknown(m *model.Mesh, issuers []string) (notes []model.Note) {
	for _, o := range m.Objects() {
		g, is := o.Spec.(*networking.Gateway)
		if !is {
			continue
		}
		for i, s := range g.Servers {
			issuer := model.Issuer(s.GetTls().GetCredentialName())
			if issuer == "" || slices.Contains(issuers, issuer) {
				continue
			}
			notes = append(notes, Set{Places: []Place{placeOf(o.Meta, i)}}.notes(model.UnknownIssuer,
				fmt.Sprintf("%s is no issuer of --acmeIssuer, so no certificate comes, and connections to it have none: want one of %q", issuer, issuers))...)
		}
	}
	return notes
}

func placeOf(g model.Meta, server int) Place {
	return Place{g, fmt.Sprintf("spec.servers[%d].tls.credentialName", server)}
}

// wanted collects the sets of gateway workloads.
type wanted struct {
	issuers []string
	servers map[string]*Set // by namespace of the gateways and name of the secret
	served  map[string]bool // at port 80, as namespace and host of a set
	notes   []model.Note
}

// workload adds the sets of one gateway workload: servers that it opens, and of these the hosts that no server before them has.
func (w *wanted) workload(m *model.Mesh, p model.Proxy) {
	binds := model.Binds{Namespace: p.Namespace}
	owners := map[string]bool{}
	var own []string
	for _, g := range m.GatewaysAt(p.Namespace, p.Labels) {
		for i, s := range g.Spec.Servers {
			if refused, _ := binds.Refused(g.Meta, s); refused != "" || strings.HasPrefix(s.GetBind(), "unix://") {
				continue
			}
			protocol, _ := model.ParseProtocol(s.GetPort().GetProtocol())
			if !protocol.IsTLS() {
				continue
			}
			var hosts []string
			for _, host := range hostsOf(s) {
				at := fmt.Sprint(s.Bind, " ", s.Port.Number, " ", host)
				if !owners[at] {
					hosts = append(hosts, host)
				}
				owners[at] = true
			}
			own = append(own, w.server(p.Namespace, g, i, s, hosts)...)
		}
	}
	for _, host := range own {
		if Answers(m, p, host) {
			w.served[p.Namespace+" "+host] = true
		}
	}
}

// Answers reports whether a gateway workload serves a host at port 80 in plain text, where an issuer asks.
func Answers(m *model.Mesh, p model.Proxy, host string) bool {
	binds := model.Binds{Namespace: p.Namespace}
	plain, begun := map[string]bool{}, map[string]bool{} // of an address, by its first server
	for _, g := range m.GatewaysAt(p.Namespace, p.Labels) {
		for _, s := range g.Spec.Servers {
			if refused, _ := binds.Refused(g.Meta, s); refused != "" || strings.HasPrefix(s.GetBind(), "unix://") || s.GetPort().GetNumber() != 80 {
				continue
			}
			protocol, _ := model.ParseProtocol(s.Port.Protocol)
			if !begun[s.Bind] {
				begun[s.Bind], plain[s.Bind] = true, protocol.IsHTTP()
			}
			if plain[s.Bind] && protocol.IsHTTP() && slices.ContainsFunc(hostsOf(s), func(pattern string) bool { return model.HostMatches(pattern, host) }) {
				return true
			}
		}
	}
	return false
}

// server adds the hosts that a gateway workload serves of a server. It returns those that can have a certificate; none if the server names no issuer.
func (w *wanted) server(namespace string, g *model.Config[*networking.Gateway], i int, s *networking.Server, hosts []string) []string {
	issuer := model.Issuer(s.GetTls().GetCredentialName())
	if s.GetTls().GetMode() == networking.ServerTLSSettings_PASSTHROUGH || !slices.Contains(w.issuers, issuer) { // see Unknown
		return nil
	}
	hosts = slices.DeleteFunc(hosts, func(host string) bool {
		_, err := netip.ParseAddr(host)
		return err == nil || model.IsWildcard(host)
	})
	name := model.IssuedSecret(g.Meta, s)
	known := w.servers[namespace+" "+name]
	if known == nil {
		known = &Set{Namespace: namespace, Issuer: issuer, Secrets: []string{name}, Places: []Place{placeOf(g.Meta, i)}}
		w.servers[namespace+" "+name] = known
	}
	known.Hosts = append(known.Hosts, hosts...)
	return hosts
}

// sets returns the sets by key. A server has one in a namespace, of all hosts that gateways there serve of it: these have its certificate by one name.
func (w *wanted) sets() map[string]*Set {
	out := map[string]*Set{}
	for _, at := range slices.Sorted(maps.Keys(w.servers)) {
		s := w.servers[at]
		slices.Sort(s.Hosts)
		s.Hosts = slices.Compact(s.Hosts)
		known := out[s.Key()]
		switch {
		case len(s.Hosts) == 0:
		case len(s.Hosts) > maxHosts:
			w.notes = append(w.notes, s.notes(model.ACMERefused,
				fmt.Sprintf("the server has %d hosts, want at most %d in a certificate: nothing is ordered", len(s.Hosts), maxHosts))...)
		case known == nil:
			out[s.Key()] = s
		default:
			known.Secrets, known.Places = append(known.Secrets, s.Secrets...), append(known.Places, s.Places...)
		}
	}
	return out
}

// hostsOf returns a server's hosts without their namespaces.
func hostsOf(s *networking.Server) (out []string) {
	for _, h := range s.Hosts {
		out = append(out, strings.ToLower(h[strings.Index(h, "/")+1:]))
	}
	return out
}

// notes returns a note for each place of a set.
func (s Set) notes(code model.Code, text string) (out []model.Note) {
	for _, p := range s.Places {
		out = append(out, model.Note{Code: code, Meta: p.Meta, Path: p.Path, Message: text})
	}
	return out
}
