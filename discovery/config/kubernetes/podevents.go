package kubernetes

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// How fast Events of Pods are written, and how many of one Pod: a proxy chooses what it says of itself.
const (
	podEventsPerSecond = 1
	podEventsAtOnce    = 10
	maxPodEvents       = 10        // of one Pod within podEventsWindow
	podEventsWindow    = time.Hour // the API server keeps an Event for as long by default
)

// PodEvents writes the notes about connected proxies as Events of their Pods. Every replica does for the proxies that are
// connected to it, since no other one knows them: an Event has a name made of its content, so two replicas that write the
// same one write it once.
type PodEvents struct {
	Cluster  string
	Instance string // name of this replica in Events
	Log      *slog.Logger

	mu     sync.Mutex
	wanted map[string]podEvent  // by key
	spent  map[string]allowance // by UID of the Pod
	queue  writes               // nil while Run does not run
}

// podEvent is a note about the proxy of a Pod.
type podEvent struct {
	namespace, name, uid, reason, message string

	written bool // or not to be written
}

func (e podEvent) key() string { return e.uid + " " + e.reason + " " + e.message }

func (e podEvent) ref() kube.Ref {
	return kube.Ref{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: "Pod", Namespace: e.namespace, Name: e.name, UID: e.uid}
}

// allowance counts the Events of a Pod.
type allowance struct {
	since   time.Time // of the window
	written int
}

// at returns the allowance at now: a new one when the window is over, or the clock was set back.
func (a allowance) at(now time.Time) allowance {
	if now.Sub(a.since) >= podEventsWindow || now.Before(a.since) {
		return allowance{since: now}
	}
	return a
}

// podEvents returns the Events of notes about proxies that are Pods of a cluster.
func podEvents(mesh *model.Mesh, cluster string, notes []model.Note) map[string]podEvent {
	out := map[string]podEvent{}
	for _, n := range notes {
		if n.Meta.Kind != "Proxy" {
			continue
		}
		pod := mesh.Residents(n.Meta.Namespace).Registered(n.Meta.Name, "Kubernetes", cluster)
		if pod == nil || pod.Origin.Record == nil || pod.Origin.Record.UID == "" {
			continue
		}
		message := strings.TrimPrefix(n.Path+": "+strings.TrimSpace(n.Message), ": ")
		e := podEvent{namespace: n.Meta.Namespace, name: n.Meta.Name, uid: pod.Origin.Record.UID, reason: camelCase(string(n.Code)), message: message}
		out[e.key()] = e
	}
	return out
}

// camelCase writes withheld-secret as WithheldSecret, which is the form of reasons.
func camelCase(code string) string {
	var out strings.Builder
	for word := range strings.SplitSeq(code, "-") {
		if word != "" {
			out.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return out.String()
}

// Judged sets the notes of a mesh. It does not wait for writes.
func (p *PodEvents) Judged(mesh *model.Mesh, notes []model.Note) {
	now := podEvents(mesh, p.Cluster, notes)
	p.mu.Lock()
	defer p.mu.Unlock()
	pods := map[string]bool{}
	for key, e := range now {
		pods[e.uid] = true
		if e.written = p.wanted[key].written; e.written {
			now[key] = e
		} else if p.queue != nil {
			p.queue.Add(key)
		}
	}
	for uid, a := range p.spent {
		if !pods[uid] && time.Since(a.since) >= podEventsWindow {
			delete(p.spent, uid)
		}
	}
	p.wanted = now
}

// Run writes the Events that are missing until ctx is done. It does not end before: a cluster that cannot be reached is tried
// again.
func (p *PodEvents) Run(ctx context.Context, connect func() (*kube.Client, error)) error {
	for {
		client, err := connect()
		if err == nil {
			defer client.Close()
			failing := false
			work(ctx, podEventsPerSecond, podEventsAtOnce, p.begin, func(queue writes, key string, turn func() bool) {
				if e, is := p.due(key); !is {
					queue.Forget(key)
				} else if turn() {
					failing = p.writeEvent(ctx, client, queue, e, failing)
				}
			})
			return nil
		}
		p.Log.Error("Events of Pods are not written", "err", err, "again", lastRetry)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lastRetry):
		}
	}
}

// writeEvent writes one Event. It logs when writes begin to fail, and when they succeed again.
func (p *PodEvents) writeEvent(ctx context.Context, client *kube.Client, queue writes, e podEvent, failing bool) bool {
	within, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := client.Tell(within, e.ref(), kube.Said{Reason: e.reason, Message: e.message}, p.Instance, time.Now())
	switch {
	case err == nil, apierrors.IsNotFound(err): // its namespace is gone
		queue.Forget(e.key())
		p.wrote(e)
	case errors.Is(ctx.Err(), context.Canceled):
		return failing
	default:
		queue.AddRateLimited(e.key())
		if !failing {
			p.Log.Error("Events of Pods are not written", "pod", e.namespace+"/"+e.name, "err", err)
		}
		return true
	}
	if failing {
		p.Log.Info("Events of Pods are written again")
	}
	return false
}

// due returns an Event that is still to be written; false for none. One above the allowance of its Pod is not written.
func (p *PodEvents) due(key string) (podEvent, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, is := p.wanted[key]
	if !is || e.written {
		return e, false
	}
	a := p.spent[e.uid].at(time.Now())
	if a.written < maxPodEvents {
		return e, true
	}
	e.written = true
	if p.wanted[key] = e; a.written == maxPodEvents {
		a.written++ // which is said once
		p.spent[e.uid] = a
		p.Log.Warn("further Events of a Pod are not written: see /debug/notes", "pod", e.namespace+"/"+e.name, "most", maxPodEvents, "within", podEventsWindow)
	}
	return e, false
}

// wrote counts an Event.
func (p *PodEvents) wrote(e podEvent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.written = true
	if _, is := p.wanted[e.key()]; is {
		p.wanted[e.key()] = e
	}
	a := p.spent[e.uid].at(time.Now())
	a.written++
	if p.spent == nil {
		p.spent = map[string]allowance{}
	}
	p.spent[e.uid] = a
}

// begin sets the queue, nil for none, and queues what is not written.
func (p *PodEvents) begin(queue writes) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queue = queue; queue == nil {
		return
	}
	for key, e := range p.wanted {
		if !e.written {
			queue.Add(key)
		}
	}
}
