package proxy

import (
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/lossy"
	"github.com/pilotlight/pilotlight/agent/procnet"
	"github.com/pilotlight/pilotlight/agent/status"
)

// report is the state of a running proxy for the status port and the service manager.
type report struct {
	node            string
	child           *envoy.Proxy
	certificates    cert.Sets
	config          Config
	secrets         *secrets
	enrolled        *enrolled
	relayed         *relayed
	upgrader        *upgrader
	notifier        notifier
	stderr, printed *lossy.Writer

	supervisor atomic.Pointer[agent.Status]
	journal    status.Journal
	ready      sync.Once              // reports readiness to the service manager
	unready    atomic.Pointer[string] // why, the last reason; nil once it was ready
	wasReady   bool                   // guarded by the journal
}

// observe stores the supervisor's status and its new events.
func (r *report) observe(s agent.Status, news []agent.Event) {
	r.supervisor.Store(&s)
	r.remember()
	r.journal.Observe(news, func(epoch int) []string { return r.child.Remains(epoch).LastLines })
}

// document returns the document of the status port.
func (r *report) document() status.Document {
	r.remember()
	d := r.readiness()
	d.Node, d.Pids, d.Past = r.node, r.child.Pids(), r.journal.Past()
	d.Dropped = []status.Dropped{{Stream: "stderr", Lines: r.stderr.Dropped()}, {Stream: "stdout", Lines: r.printed.Dropped()}}
	if r.upgrader != nil {
		d.Upgrades = r.upgrader.upgrades()
		if changed := changedArguments(r.child); changed != "" && d.Upgrades.Count > 0 {
			d.Upgrades.NotInForce = append(slices.Clip(d.Upgrades.NotInForce), changed)
		}
	}
	for _, set := range r.certificates {
		d.Certificates = append(d.Certificates, certificateOf(set, r.config.reads(r.child.Started()))...)
	}
	d.Recording, d.Redirected = r.relayed.recording(), r.child.Redirection != nil
	r.enrolled.report(d.Certificates)
	d.Certificates = append(d.Certificates, r.secrets.certificates(d.Certificates)...)
	if facts, err := procnet.ReadStat(os.Getpid()); err == nil {
		d.Memory = facts.RSS
	}
	return d
}

// readiness returns the part of the document on which readiness depends.
func (r *report) readiness() (d status.Document) {
	if s := r.supervisor.Load(); s != nil {
		d.Supervisor, d.Health = *s, r.child.Health()
	}
	return d
}

// remember records readiness. It is called when readiness may have changed.
func (r *report) remember() {
	r.journal.Ready(time.Now(), func() (bool, string) {
		ready, reason := r.readiness().Ready()
		if ready {
			r.ready.Do(func() { r.notifier.notify("READY=1\nSTATUS=ready: Envoy serves") })
		}
		r.note(ready, reason)
		return ready, reason
	})
}

// note keeps the last reason why the proxy is not ready, until it is ready for the first time. That it stops is none.
func (r *report) note(ready bool, reason string) {
	switch s := r.supervisor.Load(); {
	case ready:
		r.wasReady = true
		r.unready.Store(nil)
	case !r.wasReady && s != nil && !s.Stopping:
		r.unready.Store(&reason)
	}
}

// admin returns the transport to the admin of the epoch that serves, nil while none runs.
func (r *report) admin() http.RoundTripper {
	if a := r.child.Admin(); a != nil {
		return a.Transport()
	}
	return nil
}

// certificateOf returns the certificates of a set for the status port; nothing if the workload has none. For started see
// cert.Set.Held.
func certificateOf(set *cert.Set, started time.Time) []status.Certificate {
	seen := set.Seen()
	if seen == nil || set.None() {
		return nil
	}
	out := status.Certificate{Path: set.Chain, Serial: seen.Infos[0].Serial, Fault: set.Fault()}
	out.NotAfter = endOf(seen.Infos[0])
	if held := set.Held(started); held != nil {
		out.Held = &status.Held{Serial: held.Serial, NotAfter: held.Ends}
	}
	return []status.Certificate{out}
}

// endOf returns when a certificate ends, or an issuer in its chain if that is earlier; nil where it cannot be read.
func endOf(info cert.Info) *time.Time {
	ends := info.NotAfter
	if info.Ends.Before(ends) && !info.Ends.IsZero() {
		ends = info.Ends
	}
	if ends.IsZero() {
		return nil
	}
	return &ends
}
