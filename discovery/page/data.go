package page

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/proxystatus"
)

// maxRows bounds the rows of a table that a browser gets; maxWrong what is said to be wrong. A filter finds the others.
const (
	maxRows  = 100
	maxWrong = 50
)

// Data is what a browser shows.
type Data struct {
	At       int64       `json:"at"` // Unix time in milliseconds, as all times here
	Awaited  string      `json:"awaited,omitempty"`
	Faults   string      `json:"faults"` // their digest, as a beat tells it
	Wrong    Rows[Wrong] `json:"wrong"`
	Proxies  Rows[Proxy] `json:"proxies"`
	Services Rows[Host]  `json:"services"`
	Sources  []Registry  `json:"registries"`
	Changes  []Change    `json:"changes"` // the newest first
	Graph    Graph       `json:"graph"`
}

// Rows are the first of those that the filter finds.
type Rows[R any] struct {
	All   int `json:"all"`
	Found int `json:"found"`
	Rows  []R `json:"rows"`
}

// Wrong is one thing that is wrong.
type Wrong struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// Proxy is a row of the proxies.
type Proxy struct {
	Name    string   `json:"name"`
	Role    string   `json:"role"`
	State   string   `json:"state"`
	Version string   `json:"version"`
	Who     string   `json:"who"` // its identity
	Since   int64    `json:"since"`
	Trouble []string `json:"trouble,omitempty"`
}

// Host is a row of the services.
type Host struct {
	Host      string `json:"host"`
	Namespace string `json:"namespace"`
	Registry  string `json:"registry"`
	Healthy   int    `json:"healthy"`
	Endpoints int    `json:"endpoints"`
	Outside   bool   `json:"outside,omitempty"` // Envoy finds its endpoints, by DNS or as they are dialled
}

// Registry is the sum of the services of one.
type Registry struct {
	Name      string `json:"name"`
	Services  int    `json:"services"`
	Healthy   int    `json:"healthy"`
	Endpoints int    `json:"endpoints"`
}

// Change is a row of the last changes.
type Change struct {
	At       int64    `json:"at"`
	Objects  []string `json:"objects"`
	Count    int      `json:"count"`
	Sent     int      `json:"sent"` // proxies that were sent something
	Proxies  int      `json:"proxies"`
	Waiting  int      `json:"waiting"`
	Duration int64    `json:"ms"` // until the last answer, or so far
}

// Of returns what a browser shows of facts: rows that have each word of filter, and the graph of the service focus; ""
// is the first one with a rule.
func Of(f Facts, filter, focus string) Data {
	words := strings.Fields(strings.ToLower(filter))
	m := f.Mesh
	if m == nil {
		m = &model.Mesh{}
	}
	d := Data{At: f.Now.UnixMilli(), Changes: []Change{}, Awaited: f.Awaited, Faults: digest(f.Faults), Wrong: bounded(wrongs(f), maxWrong, nil, nil)}
	var proxies []Proxy
	for _, p := range f.Proxies {
		proxies = append(proxies, proxyOf(p))
	}
	d.Proxies = bounded(proxies, maxRows, words, func(p Proxy) string {
		return p.Name + " " + p.Role + " " + p.State + " " + p.Version + " " + p.Who + " " + strings.Join(p.Trouble, " ")
	})
	hosts := hostsOf(m)
	d.Sources = registriesOf(hosts)
	d.Services = bounded(hosts, maxRows, words, func(h Host) string { return h.Host + " " + h.Namespace + " " + h.Registry })
	for _, p := range slices.Backward(f.Pushes) {
		d.Changes = append(d.Changes, changeOf(p, f.Now))
	}
	if focus == "" && len(words) > 0 && len(d.Services.Rows) > 0 {
		focus = d.Services.Rows[0].Host
	}
	d.Graph = graphOf(m, f.Callers, cmp.Or(focus, m.HasWays(), firstHost(hosts)))
	return d
}

func firstHost(hosts []Host) string {
	if len(hosts) == 0 {
		return ""
	}
	return hosts[0].Host
}

// bounded keeps the first rows that have every word.
func bounded[R any](all []R, most int, words []string, text func(R) string) Rows[R] {
	out := Rows[R]{All: len(all), Rows: []R{}}
	for _, r := range all {
		if len(words) > 0 {
			has := strings.ToLower(text(r))
			if slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(has, word) }) {
				continue
			}
		}
		if out.Found++; len(out.Rows) < most {
			out.Rows = append(out.Rows, r)
		}
	}
	return out
}

func proxyOf(p proxystatus.Proxy) Proxy {
	return Proxy{
		Name: p.Title(), Role: p.Role, State: string(p.State), Version: p.Version, Who: p.Identity, Since: p.Connected.UnixMilli(), Trouble: p.Troubles(),
	}
}

// hostsOf returns the services, those without a healthy endpoint first, then those with an unhealthy one.
func hostsOf(m *model.Mesh) []Host {
	out := make([]Host, 0, len(m.Services()))
	for _, s := range m.Services() {
		h := Host{
			Host: s.Host, Namespace: s.Namespace, Registry: cmp.Or(s.Registry, "ServiceEntry"), Endpoints: len(s.Endpoints),
			Outside: s.Resolution != model.ResolutionStatic,
		}
		for _, e := range s.Endpoints {
			if e.Health.TakesRequests() {
				h.Healthy++
			}
		}
		out = append(out, h)
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].rank() < out[j].rank() })
	return out
}

func (h Host) rank() int {
	switch {
	case h.Outside && h.Healthy == h.Endpoints:
		return 2
	case h.Healthy == 0:
		return 0
	case h.Healthy < h.Endpoints:
		return 1
	}
	return 2
}

func registriesOf(hosts []Host) []Registry {
	out := []Registry{}
	for _, h := range hosts {
		i := slices.IndexFunc(out, func(r Registry) bool { return r.Name == h.Registry })
		if i < 0 {
			i, out = len(out), append(out, Registry{Name: h.Registry})
		}
		out[i].Services++
		out[i].Healthy += h.Healthy
		out[i].Endpoints += h.Endpoints
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

func changeOf(p ads.Push, now time.Time) Change {
	c := Change{At: p.Pushed.UnixMilli(), Objects: p.Cause, Count: p.Changes, Proxies: p.Proxies, Waiting: p.Waiting}
	for _, n := range p.Responses {
		c.Sent = max(c.Sent, n)
	}
	c.Sent = min(c.Sent, c.Proxies)
	end := p.Last
	if p.Waiting > 0 {
		end = now
	}
	if from := p.Since; !end.IsZero() && !from.IsZero() {
		c.Duration = max(end.Sub(from).Milliseconds(), 0)
	}
	return c
}

// wrongs returns what is wrong, the worst first.
func wrongs(f Facts) (out []Wrong) {
	add := func(kind, format string, args ...any) { out = append(out, Wrong{kind, fmt.Sprintf(format, args...)}) }
	if f.Awaited != "" {
		add("not ready", "%s", f.Awaited)
	}
	for _, p := range f.Proxies {
		for _, r := range p.Refused {
			add("refused", "%s refuses %s: %s", p.Title(), strings.TrimSpace(strings.ToUpper(r.Type)+" "+r.Part), r.Text)
		}
		if p.Waits.Waits() {
			add("held", "%s keeps what it has, for it would lose %d of its %d clusters", p.Title(), p.Waits.Lost.Lost, p.Waits.Lost.Had)
		}
	}
	for _, line := range f.Faults {
		add("fault", "%s", line)
	}
	for _, c := range f.Certificates {
		switch {
		case c.Fault != "":
			add("certificate", "%s: %s", c.Name, c.Fault)
		case c.late(f.Now):
			add("certificate", "%s ends at %s, in %s", c.Name, c.Until.UTC().Format(time.RFC3339), c.Until.Sub(f.Now).Round(time.Minute))
		}
	}
	for _, s := range f.InUse {
		if c := (Certificate{From: s.From, Until: s.Until}); c.late(f.Now) {
			add("certificate", "secret %s, of connected proxies (%d): its certificate %s", s.Name, s.Proxies, c.end(f.Now))
		}
	}
	for _, p := range f.Proxies {
		if c := (Certificate{From: p.CertificateFrom, Until: p.CertificateUntil}); !c.Until.IsZero() && c.late(p.Connected) {
			add("certificate", "%s has connected with a certificate that ends at %s, late in its life: its agent renews one at half of that, and says on its page why not", p.Title(),
				c.Until.UTC().Format(time.RFC3339))
		}
	}
	for _, g := range f.Disconnected { // one whose workload is gone too has nothing to do here any more
		if ip, err := netip.ParseAddr(g.IP); err == nil && f.Mesh != nil && len(f.Mesh.ServicesAt(ip.Unmap())) > 0 {
			add("gone", "%s is gone since %s, and services still have an endpoint at %s", g.Name, g.At.UTC().Format(time.RFC3339), ip)
		}
	}
	for _, n := range f.Notes {
		text := n.Meta.Kind + " " + n.Meta.Namespace + "/" + n.Meta.Name
		if at := n.Meta.Origin.String(); at != "" {
			text += " at " + at
		}
		add("note "+string(n.Code), "%s: %s", text, strings.TrimSpace(n.Path+" "+n.Message))
	}
	return out
}

// Facts are what the page shows, of one moment.
type Facts struct {
	Now          time.Time
	Awaited      string      // what discovery waits for before it is ready; "" once it is
	Mesh         *model.Mesh // nil before the first
	Proxies      []proxystatus.Proxy
	Callers      []model.Proxy
	Disconnected []ads.Disconnected
	Notes        []model.Note
	Faults       []string // of sources and other parts: a line for each
	Pushes       []ads.Push
	Certificates []Certificate
	InUse        []ads.InUse // certificates of secrets
}

// Certificate is one that discovery itself uses.
type Certificate struct {
	Name  string
	From  time.Time
	Until time.Time
	Fault string // why it cannot be read; "" if it can
}

// A certificate is soon to end within lateAfter, or in the last quarter of a life that is shorter: those of an
// authority live a day, and are renewed at half of it, and those of an issuer by ACME when a third of it is left. So
// one that renews itself is named when that is late.
const (
	day       = 24 * time.Hour
	lateAfter = 7 * day
	lastPart  = 4
)

func (c Certificate) late(now time.Time) bool {
	return c.Until.Sub(now) < min(lateAfter, c.Until.Sub(c.From)/lastPart)
}

// end says when a certificate ends, as of now.
func (c Certificate) end(now time.Time) string {
	at, left := c.Until.UTC().Format(time.RFC3339), c.Until.Sub(now)
	switch {
	case left <= 0:
		return fmt.Sprintf("has ended at %s: its peers refuse it", at)
	case left < 2*day:
		return fmt.Sprintf("ends at %s, in %s", at, left.Round(time.Minute))
	}
	return fmt.Sprintf("ends at %s, in %d days", at, left/day)
}
