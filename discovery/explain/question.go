package explain

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
	"github.com/pilotlight/pilotlight/node"
)

// Question is what is asked about one request.
type Question struct {
	From     string            // a workload, NAMESPACE/NAME, NAME or an address, or a proxy's node ID
	Metadata map[string]string // what the proxy's node says beside its ID, by Istio's keys: INTERCEPTION_MODE
	To       string            // HOST[:PORT], as the program names it; port 80 where it names none
	Address  string            // to which the program connects, with a port if it is not that of To; "" for the one that DNS has for the host
	Method   string
	Path     string
	Header   []string // "NAME: VALUE" or "NAME=VALUE"
	TCP      bool     // the program sends bytes that are not HTTP
	TLS      bool     // the program begins TLS itself, with the host as server name

	ServerMetadata map[string]string // as Metadata, of the proxies of endpoints
}

// Road is the answer to a question.
type Road struct {
	Proxy     string `json:"proxy"`               // node ID
	Connected bool   `json:"connected,omitempty"` // it is connected to the discovery that answers; else it is as injection would make it
	To        string `json:"to"`                  // HOST:PORT
	At        string `json:"at"`                  // the address to which the program connects
	Answer
}

// nowhere is an address at which a program connects to a host that has none: one that no listener has.
var nowhere = netip.AddrFrom4([4]byte{240, 0, 0, 1})

// Answer answers a question in a mesh. An error names the part of the question that cannot be understood.
func (q Question) Answer(m *model.Mesh) (Road, error) { return q.AnswerOf(m, nil) }

// AnswerOf does the same where proxies are connected: what these have said of themselves is known, so they are not made up.
func (q Question) AnswerOf(m *model.Mesh, all []Connected) (Road, error) {
	from, err := q.sender(m, all)
	if err != nil {
		return Road{}, err
	}
	host, port, err := splitTo(q.To)
	if err != nil {
		return Road{}, err
	}
	header, err := headers(q.Header)
	if err != nil {
		return Road{}, err
	}
	view := from.view.Outbound
	made := xds.SketchOf(m, view)
	r := Request{Host: q.To, Method: strings.ToUpper(q.Method), Path: q.Path, Header: header, TCP: q.TCP, TLS: q.TLS}
	road := Road{Proxy: from.id.String(), Connected: from.connected, To: fmt.Sprintf("%s:%d", host, port)}
	origins := xds.OriginsOf(m, view, made.Resources)
	at, step, err := q.resolve(made.Resources, origins, view, host, port)
	if err != nil {
		return Road{}, err
	}
	r.To, road.At = at, at.String()
	r.Whole = at.Addr().IsLoopback() && at.Port() != 0 && uint32(at.Port()) == uint32(view.HTTPProxyPort)
	served := Served{Cluster: made.Cluster, Listeners: made.Listeners, Routes: made.Routes, Server: q.servers(m, all), Client: clientOf(m, from)}
	road.Answer = Judge(served, r, madeBy(origins))
	road.Steps = append([]Step{step}, road.Steps...)
	return road, nil
}

// resolve returns the address to which the program connects.
func (q Question) resolve(made *xds.Resources, origins xds.Origins, v xds.Outbound, host string, port uint16) (netip.AddrPort, Step, error) {
	step := Step{Kind: "address", Name: host, Unmade: "the question says it"}
	to := func(ip netip.Addr, format string, args ...any) (netip.AddrPort, Step, error) {
		step.Text = fmt.Sprintf(format, args...)
		return netip.AddrPortFrom(ip, port), step, nil
	}
	if q.Address != "" {
		if at, err := netip.ParseAddrPort(q.Address); err == nil {
			step.Text = fmt.Sprintf("the program connects to %s", at)
			return at, step, nil
		}
		ip, err := netip.ParseAddr(q.Address)
		if err != nil {
			return netip.AddrPort{}, Step{}, fmt.Errorf("address %q: want an IP address, with or without a port", q.Address)
		}
		return to(ip, "the program connects to %s", ip)
	}
	if v.Mode == node.None && v.HTTPProxyPort != 0 && !q.TCP && !q.TLS {
		step.Unmade = "the metadata of the proxy say it"
		step.Text = fmt.Sprintf("the program sends it to its HTTP proxy at port %d", v.HTTPProxyPort)
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(v.HTTPProxyPort)), step, nil
	}
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return to(ip, "is an address")
	}
	for _, name := range searched(host, v.Domain) {
		for _, n := range made.Names(v) {
			if ip, err := netip.ParseAddr(append(slices.Clone(n.Addresses), "")[0]); n.Host == name && err == nil {
				if step.Origins = placed(origins.Name(name)); len(step.Origins) > 0 {
					step.Unmade = ""
				}
				return to(ip, "%s has the address %s", name, ip)
			}
		}
	}
	step.Unmade = "no service has the name"
	return to(nowhere, "its address is not known here: %s stands for one that no service has", nowhere)
}

// searched returns the names for which a resolver asks, in its order.
func searched(host, domain string) []string {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	out := []string{host}
	for domain != "" {
		out = append(out, host+"."+domain)
		_, domain, _ = strings.Cut(domain, ".")
	}
	return out
}

// sidecarOf returns the sidecar of a workload, as injection would make it. said is what its node says beside that.
func sidecarOf(m *model.Mesh, w *model.Workload, said map[string]string) (xds.Proxy, error) {
	id := node.ID{Role: node.Sidecar, IP: w.Addresses[0], Name: w.Name + "." + w.Namespace, Domain: w.Namespace + ".svc." + m.Settings().Domain.String()}
	labels := map[string]any{}
	for key, value := range w.Labels {
		labels[key] = value
	}
	metadata := map[string]any{"NAMESPACE": w.Namespace, "INSTANCE_IPS": strings.Join(w.Addresses, ","), "LABELS": labels}
	if w.ServiceAccount != "" {
		metadata["SERVICE_ACCOUNT"] = w.ServiceAccount
	}
	if w.TakesMutualTLS() {
		metadata["PILOTLIGHT_SDS"], metadata["PILOTLIGHT_CERTIFICATE"] = string(node.SDSFiles), "true"
	}
	return proxyOf(id.String(), metadata, said)
}

func proxyOf(id string, metadata map[string]any, said map[string]string) (xds.Proxy, error) {
	for key, value := range said {
		metadata[key] = value
		if key == "LABELS" {
			labels := map[string]any{}
			for part := range strings.SplitSeq(value, ",") {
				name, of, _ := strings.Cut(part, "=")
				labels[name] = of
			}
			metadata[key] = labels
		}
	}
	fields, err := structpb.NewStruct(metadata)
	if err != nil {
		return xds.Proxy{}, fmt.Errorf("metadata: %w", err)
	}
	return xds.ParseProxy(&corev3.Node{Id: id, Metadata: fields})
}

// workload returns the workload that a text names: NAMESPACE/NAME, NAME of the namespace default, or an address.
func workload(m *model.Mesh, text string) (*model.Workload, error) {
	ip, err := netip.ParseAddr(text)
	namespace, name, qualified := strings.Cut(text, "/")
	if !qualified {
		namespace, name = "default", text
	}
	var known []string
	for w := range m.Workloads() {
		if len(w.Addresses) == 0 {
			continue
		}
		if err != nil && w.Namespace == namespace && w.Name == name || err == nil && slices.Contains(w.Addresses, ip.String()) {
			return w, nil
		}
		known = append(known, w.Namespace+"/"+w.Name)
	}
	if err == nil {
		for _, s := range m.ServicesAt(ip.Unmap()) {
			for _, e := range s.Endpoints {
				if e.Address == text {
					return &model.Workload{Namespace: s.Namespace, Name: strings.ReplaceAll(text, ":", "-"), Addresses: []string{text}, Labels: e.Labels, Proxied: e.Proxied, ServiceAccount: e.ServiceAccount}, nil
				}
			}
		}
		return nil, fmt.Errorf("no workload and no endpoint has the address %s", ip)
	}
	slices.Sort(known)
	const most = 10
	if len(known) == 0 {
		known = []string{"none, so an endpoint's address or a node ID"}
	}
	return nil, fmt.Errorf("no workload %s/%s: want one of %s, an address of one, or a node ID such as sidecar~10.0.0.1~web.shop~shop.svc.cluster.local",
		namespace, name, strings.Join(known[:min(len(known), most)], ", "))
}

func splitTo(to string) (host string, port uint16, err error) {
	host, text := splitPort(to)
	if host == "" {
		return "", 0, fmt.Errorf("to %q: want HOST or HOST:PORT", to)
	}
	if text == "" {
		return host, 80, nil
	}
	n, err := strconv.ParseUint(text[1:], 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("to %q: port %s, want 1 to 65535", to, text[1:])
	}
	return host, uint16(n), nil
}

func headers(all []string) (map[string][]string, error) {
	out := map[string][]string{}
	for _, h := range all {
		at := strings.IndexAny(h, ":=")
		if at <= 0 {
			return nil, fmt.Errorf("header %q: want NAME:VALUE or NAME=VALUE", h)
		}
		name := strings.ToLower(h[:at])
		out[name] = append(out[name], strings.TrimSpace(h[at+1:]))
	}
	return out, nil
}

// madeBy returns a function that finds the objects that made a part. What made the routes of a virtual host is found once,
// because a judge asks about them one after the other.
func madeBy(o xds.Origins) func(Part) Made {
	var host Part
	var routes func(index int) []model.Place
	return func(p Part) Made {
		if p.Route == 0 {
			return madeOf(o, p)
		}
		if of := (Part{Routes: p.Routes, Host: p.Host}); routes == nil || of != host {
			host, routes = of, o.Routes(p.Routes, p.Host)
		}
		return Made{By: placed(routes(p.Route - 1))}
	}
}

func madeOf(o xds.Origins, p Part) Made {
	with := func(made xds.Made) Made { return Made{placed(made.By), made.More, made.Unmade} }
	only := func(made []model.Place) Made { return Made{By: placed(made)} }
	switch {
	case p.Policy != "":
		return only(o.Policy(p.Policy))
	case p.Name != "":
		return only(o.Name(p.Name))
	case p.Chain != nil:
		return with(o.Chain(p.Listener, p.Chain))
	case p.Listener != "":
		return with(o.Listener(p.Listener))
	case p.TLS:
		return only(o.TLS(p.Cluster))
	case p.Endpoint != "":
		address, _ := splitPort(p.Endpoint)
		return only(o.Endpoint(p.Cluster, strings.Trim(address, "[]")))
	case p.Cluster != "":
		return with(o.Cluster(p.Cluster))
	}
	return with(o.Host(p.Routes, p.Host))
}

func placed(made []model.Place) (out []Place) {
	for _, m := range made {
		place := Place{Object: fmt.Sprintf("%s %s/%s", m.Meta.Kind, m.Meta.Namespace, m.Meta.Name), Path: m.Path, At: m.Meta.Origin.String()}
		if m.Meta.Origin.Record == nil && m.Meta.Origin.File != "" {
			place.At = fmt.Sprintf("%s:%d", m.Meta.Origin.File, m.Line())
		}
		out = append(out, place)
	}
	return out
}

// Values returns the question as ParseValues reads it.
func (q Question) Values() url.Values {
	out := url.Values{"from": {q.From}, "to": {q.To}, "address": {q.Address}, "method": {q.Method}, "path": {q.Path}, "header": q.Header}
	for name, set := range map[string]bool{"tcp": q.TCP, "tls": q.TLS} {
		if set {
			out.Set(name, "true")
		}
	}
	for name, said := range map[string]map[string]string{"meta": q.Metadata, "server-meta": q.ServerMetadata} {
		for key, value := range said {
			out.Add(name, key+"="+value)
		}
	}
	return out
}

// ParseValues reads a question by the names of the flags of the command explain. An error names the value that is wrong.
func ParseValues(v url.Values) (Question, error) {
	known := []string{"from", "to", "address", "method", "path", "header", "tcp", "tls", "meta", "server-meta"}
	for name := range v {
		if !slices.Contains(known, name) {
			return Question{}, fmt.Errorf("%.100q: want one of %s", name, strings.Join(known, ", "))
		}
	}
	q := Question{
		From: v.Get("from"), To: v.Get("to"), Address: v.Get("address"), Method: v.Get("method"), Path: v.Get("path"), Header: v["header"],
	}
	if q.From == "" || q.To == "" {
		return Question{}, fmt.Errorf("from or to is missing: want who sends, and the host")
	}
	var err error
	for name, into := range map[string]*bool{"tcp": &q.TCP, "tls": &q.TLS} {
		if text := v.Get(name); text != "" {
			if *into, err = strconv.ParseBool(text); err != nil {
				return Question{}, fmt.Errorf("%s %.100q: want true or false", name, text)
			}
		}
	}
	if q.Metadata, err = pairs("meta", v["meta"]); err != nil {
		return Question{}, err
	}
	q.ServerMetadata, err = pairs("server-meta", v["server-meta"])
	return q, err
}

func pairs(name string, all []string) (map[string]string, error) {
	var out map[string]string
	for _, text := range all {
		key, value, found := strings.Cut(text, "=")
		if !found || key == "" {
			return nil, fmt.Errorf("%s %.100q: want KEY=VALUE", name, text)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = value
	}
	return out, nil
}

// Connected is a proxy that is connected to the discovery that answers.
type Connected struct {
	Node    string // its ID
	View    xds.View
	Account string // the service account that its certificate proves; "" without one
}

// sender is the proxy from which a request comes.
type sender struct {
	id        node.ID
	view      xds.View
	account   string
	connected bool
}

// sender returns the connected proxy that From names. If there is none, or the question says more of it, the proxy is made up, as injection
// would make it.
func (q Question) sender(m *model.Mesh, all []Connected) (sender, error) {
	if c := named(all, q.From); c != nil && len(q.Metadata) == 0 {
		return c.sender(m), nil
	}
	if strings.Contains(q.From, "~") {
		return made(proxyOf(q.From, map[string]any{}, q.Metadata))
	}
	w, err := workload(m, q.From)
	if err != nil {
		return sender{}, err
	}
	if c := sidecarAt(all, w.Namespace, w.Addresses[0]); c != nil && len(q.Metadata) == 0 {
		return c.sender(m), nil
	}
	return made(sidecarOf(m, w, q.Metadata))
}

func made(p xds.Proxy, err error) (sender, error) {
	if err != nil {
		return sender{}, err
	}
	account, _ := p.Metadata.Extra["SERVICE_ACCOUNT"].(string)
	return sender{id: p.ID, view: xds.ViewOf(p), account: account}, nil
}

// sender returns the proxy with the account that its certificate proves, else that of the workload at its address.
func (c *Connected) sender(m *model.Mesh) sender {
	id, _ := node.ParseID(c.Node) // it was parsed when the proxy connected
	s := sender{id: id, view: c.View, account: c.Account, connected: true}
	if s.account == "" {
		if w, err := workload(m, id.IP); err == nil {
			s.account = w.ServiceAccount
		}
	}
	return s
}

// named returns the connected proxy with a node ID, the name in one, or NAMESPACE/NAME of it; nil for none.
func named(all []Connected, text string) *Connected {
	i := slices.IndexFunc(all, func(c Connected) bool {
		id, err := node.ParseID(c.Node)
		namespace := c.View.Outbound.Namespace
		return c.Node == text || err == nil && (id.Name == text || namespace+"/"+strings.TrimSuffix(id.Name, "."+namespace) == text)
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

// sidecarAt returns the one connected sidecar of a namespace that says it has an address; nil for none, and for several: one of them lies.
func sidecarAt(all []Connected, namespace, address string) (found *Connected) {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return nil
	}
	for i, c := range all {
		in := c.View.Inbound
		if in.Gateway || in.Proxyless || in.Namespace != namespace || !slices.Contains(c.View.Proxy().Addresses, ip.Unmap()) {
			continue
		}
		if found != nil && found.Node != c.Node {
			return nil
		}
		found = &all[i]
	}
	return found
}

// title is the line of a road that says whose proxy it is.
func (r Road) title() string {
	if r.Connected {
		return r.Proxy + ", which is connected"
	}
	return r.Proxy
}
