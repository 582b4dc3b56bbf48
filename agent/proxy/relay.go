package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/health"
	"github.com/pilotlight/pilotlight/agent/lastgood"
	"github.com/pilotlight/pilotlight/agent/relay"
	"github.com/pilotlight/pilotlight/agent/status"
	"github.com/pilotlight/pilotlight/bootstrap"
	"github.com/pilotlight/pilotlight/node"
)

// LastGood is whether a proxy remembers the configuration that its Envoy has accepted.
type LastGood struct {
	On     bool
	MaxAge time.Duration // how old it may be when it is served; 0 for any age
}

// relaySocket is the name of the socket of the agent's relay: see envoy.Slot.Socket.
const relaySocket = "ads"

// relays reports whether Envoy's stream to discovery goes through the agent.
func (c Config) relays() bool {
	return c.LastGood.On && c.Source.Custom.Path == "" && c.Params.Discovery.Variant == bootstrap.Delta
}

// through reports whether a bootstrap has ADS, and whether it leads that through the socket. A template or an override may lead it elsewhere.
func through(text []byte, socket string) (ads, is bool) {
	var b struct {
		Static struct {
			Clusters []struct {
				Name      string          `json:"name"`
				Transport json.RawMessage `json:"transport_socket"`
				Load      json.RawMessage `json:"load_assignment"`
			} `json:"clusters"`
		} `json:"static_resources"`
		Dynamic struct {
			ADS *struct {
				Type string `json:"api_type"`
			} `json:"ads_config"`
		} `json:"dynamic_resources"`
	}
	path, err := json.Marshal(socket)
	if err != nil || json.Unmarshal(text, &b) != nil {
		return true, false
	}
	if ads = b.Dynamic.ADS != nil; !ads || b.Dynamic.ADS.Type != "DELTA_GRPC" {
		return ads, false
	}
	for _, c := range b.Static.Clusters {
		if c.Name == "xds-grpc" {
			return true, c.Transport == nil && bytes.Contains(c.Load, path)
		}
	}
	return true, false
}

// relayed is a relay and its socket; nil for none.
type relayed struct {
	relay    *relay.Relay
	store    *lastgood.Store
	version  string // of this agent
	listener net.Listener
	child    *envoy.Proxy
	material *material // nil for plain text
}

// openRelay opens the socket of the relay, and returns the parameters of a bootstrap that leads there. Where it cannot, or where
// the operator's own files lead Envoy elsewhere, Envoy connects to discovery itself.
func (p *Proxy) openRelay(carriage *carriage, slot *envoy.Slot, params bootstrap.Params) (*relayed, bootstrap.Params) {
	c := p.config
	params.Discovery.Socket = ""
	if !c.relays() {
		return nil, params
	}
	direct := params
	params.Discovery.Socket = slot.Socket(relaySocket)
	if c.Source.given() {
		text, _, err := c.Source.bootstrap(params)
		ads, is := through(text, params.Discovery.Socket)
		if err == nil && ads && !is {
			c.Log.Warn("the last good configuration is not remembered: the bootstrap leads to discovery in a way of its own", "cluster", "xds-grpc")
		}
		if err != nil || !is {
			return nil, direct // the caller reports the error
		}
	}
	listener, err := carriage.listenOwner(relaySocket, slot, c.Log)
	if err != nil {
		c.Log.Warn("the last good configuration is not remembered: the relay has no socket", "err", err)
		return nil, direct
	}
	r := &relayed{listener: listener, version: c.Version}
	others := slices.DeleteFunc(envoy.SlotNames(c.Dir.Path), func(name string) bool { return name == slot.Name() })
	r.store = lastgood.NewStore(slot.Dir(), slot.Name(), others, r.serves, c.Log)
	config := relay.Config{
		Host: params.Discovery.Host, Port: params.Discovery.Port, ConnectTimeout: params.Discovery.ConnectTimeout,
		Store: r.store, MaxAge: c.LastGood.MaxAge, Process: r.process, Says: r.says, Log: c.Log,
	}
	if t := params.Discovery.TLS; t != nil {
		r.material = &material{files: c.Certificates[0].Files} // as Envoy's own connection to discovery would have them
		r.material.resume(carriage.from.Shown)
		config.TLS = &relay.TLS{SAN: t.SAN, Material: r.material.read}
	}
	r.relay = relay.New(config)
	r.relay.Resume(carriage.from.Relay)
	return r, params
}

// serve serves the relay for the Envoys of child until stop is called.
func (r *relayed) serve(carriage *carriage, child *envoy.Proxy) (stop func()) {
	if r == nil {
		return func() {}
	}
	r.child = child
	child.Relayed, child.Diverted = r.health, r.relay.Tell
	ctx, cancel := context.WithCancel(context.Background())
	server := r.relay.NewHTTPServer(status.PeerPid)
	var running sync.WaitGroup
	running.Go(func() { r.store.Run(ctx) })
	running.Go(func() {
		if err := server.Serve(r.listener); !errors.Is(err, http.ErrServerClosed) {
			child.Log.Error("relay to discovery no longer served", "err", err)
		}
	})
	return func() {
		carriage.keep(relaySocket, r.listener)
		server.Close()
		r.relay.Wait()
		cancel()
		running.Wait()
	}
}

// process returns what the relay needs to know of an Envoy.
func (r *relayed) process(pid int) (relay.Process, bool) {
	l, known := r.child.Launched(pid)
	hash, certified := hashOf([]byte(l.Bootstrap))
	return relay.Process{Started: l.Started, Bootstrap: hash, Certified: certified, Trial: l.Trial}, known
}

// says returns what the agent says to discovery of itself and of its pod.
func (r *relayed) says() map[string]string {
	said := node.Said{Version: r.version}
	if b := r.child.Bypassed(); b != nil {
		said.Bypassed = fmt.Sprint(b.Port, " ", b.Client)
	}
	return said.Map()
}

// serves reports whether the process that has a number in the store serves.
func (r *relayed) serves(number uint64) bool { return r.child.Serves(time.Unix(0, int64(number))) }

// certifiedInNode is the part of a node's metadata that says whether it has a certificate: see node.Metadata.
var certifiedInNode = regexp.MustCompile(`,\s*"PILOTLIGHT_CERTIFICATE"\s*:\s*"true"|"PILOTLIGHT_CERTIFICATE"\s*:\s*"true"\s*,\s*`)

// hashOf returns the hash of a bootstrap, and whether its node has a certificate. The hash leaves that out, for it depends on how the files
// are at the start, and the sockets' paths, whose tokens differ at each start.
func hashOf(text []byte) (hash string, certified bool) {
	certified = certifiedInNode.Match(text)
	text = certifiedInNode.ReplaceAllLiteral(text, nil)
	for _, name := range []string{secretsSocket, relaySocket} {
		text = envoy.SocketPattern(name).ReplaceAllLiteral(text, []byte(`"`+name+`"`))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), certified
}

// health returns the link of an Envoy.
func (r *relayed) health(started time.Time) *health.Relayed {
	s, known := r.relay.State(started)
	if !known {
		return nil
	}
	return &health.Relayed{Connected: s.Connected, Why: s.Why, Serves: s.Serves, Lacks: r.relay.Lacks(started), Applying: s.Applying > 0}
}

// recording returns whether what Envoy accepts is remembered.
func (r *relayed) recording() *status.Recording {
	if r == nil {
		return nil
	}
	fault, ended := r.store.Recording()
	return &status.Recording{Fault: fault, Ended: ended, Newest: r.store.Newest()}
}

// shown returns the serial of the certificate that the next connection to discovery will show; empty for none.
func (r *relayed) shown() string {
	if r == nil || r.material == nil {
		return ""
	}
	own, _, err := r.material.read()
	if err != nil {
		return ""
	}
	return cert.Serial(own.Leaf)
}

// material is what the relay shows to discovery. When its files are broken, the last good contents count.
type material struct {
	files cert.Files

	mu    sync.Mutex
	good  cert.Contents // the last ones
	own   tls.Certificate
	roots *x509.CertPool
}

func (m *material) carry() cert.Contents {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.good
}

// resume takes over what the image before showed, for files that are broken by now. What is of no use is left.
func (m *material) resume(from cert.Contents) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if own, err := tls.X509KeyPair(from.Chain, from.Key); err == nil && len(from.Roots) > 0 {
		m.keep(from, own)
	}
}

// keep keeps good material. The caller holds the lock.
func (m *material) keep(good cert.Contents, own tls.Certificate) {
	m.good, m.own, m.roots = good, own, x509.NewCertPool()
	m.roots.AppendCertsFromPEM(good.Roots)
}

func (m *material) read() (tls.Certificate, *x509.CertPool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	contents, err := m.files.Read()
	if err == nil {
		_, err = contents.Check(time.Now())
	}
	switch {
	case err != nil:
	case len(contents.Chain) == 0:
		err = fmt.Errorf("certificate %s is missing", m.files.Chain)
	case len(contents.Roots) == 0: // else there were nothing to know discovery by, and those of before were forgotten
		err = fmt.Errorf("certificate %s is missing", m.files.Roots)
	}
	var own tls.Certificate
	if err == nil {
		own, err = tls.X509KeyPair(contents.Chain, contents.Key)
	}
	switch {
	case err == nil:
		m.keep(contents, own)
	case m.roots == nil:
		return tls.Certificate{}, nil, err
	}
	return m.own, m.roots, nil
}

// withRelayIn sets the path of the relay's socket for a bootstrap that is only shown.
func withRelayIn(p bootstrap.Params, c Config) bootstrap.Params {
	if c.relays() {
		p.Discovery.Socket = filepath.Join(c.Dir.Path, relaySocket+"-TOKEN.sock")
	}
	return p
}
