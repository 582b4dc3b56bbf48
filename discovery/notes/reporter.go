package notes

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotlight/pilotlight/discovery/model"
)

const (
	// recheckInterval is how often a mesh that does not change is judged again: proxies connect and disconnect.
	recheckInterval = 30 * time.Second
	// The pause between two judgements is at least one second and at least 20 times as long as the last one took: at
	// most 5 % of a CPU.
	minPause, pauseFactor = time.Second, 20
	// maxLogged is the largest number of notes that one judgement logs; /debug/notes has all.
	maxLogged = 100
)

// Reporter logs, shows and counts the notes of the newest mesh. New makes one.
type Reporter struct {
	connected func() []model.Proxy
	log       *slog.Logger
	meshes    chan *model.Mesh // the newest
	recheck   chan struct{}    // the same mesh is to be judged again
	notes     atomic.Pointer[[]model.Note]
	onJudged  func(*model.Mesh, []model.Note)
	also      func() []model.Note // nil for none
}

// New returns a Reporter; connected returns the proxies that are connected now.
func New(connected func() []model.Proxy, log *slog.Logger) *Reporter {
	r := &Reporter{connected: connected, log: log, meshes: make(chan *model.Mesh, 1), recheck: make(chan struct{}, 1)}
	r.notes.Store(&[]model.Note{})
	return r
}

// Judge queues the newest mesh; it replaces one that still waits. It returns at once. Only one goroutine at a time may
// call it.
func (r *Reporter) Judge(m *model.Mesh) {
	select {
	case <-r.meshes:
	default:
	}
	r.meshes <- m
}

// OnJudged sets a function that is called after each judgement, with all notes of the mesh. OnJudged must be called
// before Run.
func (r *Reporter) OnJudged(do func(*model.Mesh, []model.Note)) { r.onJudged = do }

// Also adds notes that do not follow from the mesh alone. It must be called before Run.
func (r *Reporter) Also(notes func() []model.Note) { r.also = notes }

// Recheck queues the newest mesh once more, since a proxy has refused a part of it. It returns at once.
func (r *Reporter) Recheck() {
	select {
	case r.recheck <- struct{}{}:
	default:
	}
}

// Notes returns the notes of the last judgement.
func (r *Reporter) Notes() []model.Note { return *r.notes.Load() }

// Run judges meshes until ctx is done.
func (r *Reporter) Run(ctx context.Context) error {
	var mesh *model.Mesh
	var judged *model.Judged
	for {
		var unchanged <-chan time.Time
		if mesh != nil {
			unchanged = time.After(recheckInterval)
		}
		select {
		case <-ctx.Done():
			return nil
		case mesh = <-r.meshes:
		case <-unchanged:
		case <-r.recheck:
		}
		select {
		case mesh = <-r.meshes: // which is newer
		default:
		}
		if mesh == nil {
			continue
		}
		began := time.Now()
		var notes []model.Note
		notes, judged = mesh.NotesAfter(judged, r.connected()...)
		if r.also != nil {
			notes = append(notes, r.also()...)
		}
		if r.report(notes); r.onJudged != nil {
			r.onJudged(mesh, notes)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(minPause, pauseFactor*time.Since(began))):
		}
	}
}

// report logs the new and the mended notes, without the warnings of objects: their sources log them as they read.
func (r *Reporter) report(now []model.Note) {
	added, mended := difference(unread(r.Notes()), unread(now))
	r.notes.Store(&now)
	for _, n := range added[:min(len(added), maxLogged)] {
		r.log.Warn("configuration note", about(n)...)
	}
	for _, n := range mended[:min(len(mended), maxLogged)] {
		r.log.Info("configuration note mended", about(n)...)
	}
	if unlogged := max(len(added)-maxLogged, 0) + max(len(mended)-maxLogged, 0); unlogged > 0 {
		r.log.Warn("more configuration notes: see /debug/notes", "count", unlogged)
	}
}

// unread returns the notes that reading the objects does not tell.
func unread(notes []model.Note) []model.Note {
	return slices.DeleteFunc(slices.Clone(notes), func(n model.Note) bool { return n.Code == model.Warned })
}

func about(n model.Note) []any {
	args := []any{"code", string(n.Code), "file", n.Meta.Origin.File, "line", n.Line()}
	if r := n.Meta.Origin.Record; r != nil {
		args = []any{"code", string(n.Code), "cluster", r.Cluster, "uid", r.UID, "generation", r.Generation, "version", r.Version}
	}
	args = append(args, "object", n.Meta.Kind+" "+n.Meta.Namespace+"/"+n.Meta.Name, "field", n.Path, "reason", n.Message)
	if n.Code == model.Conflict {
		args = append(args, "winner", n.Other.Kind+" "+n.Other.Namespace+"/"+n.Other.Name, "winnerOrigin", n.Other.Origin.String())
	}
	return args
}

var count = prometheus.NewDesc("pilotlight_config_notes", "What is to be said of configuration that is served, by code: see /debug/notes.",
	[]string{"code"}, nil)

// Describe names the metric.
func (r *Reporter) Describe(out chan<- *prometheus.Desc) { out <- count }

// Collect counts the notes by code. A code without a note is left out.
func (r *Reporter) Collect(out chan<- prometheus.Metric) {
	codes := map[model.Code]int{}
	for _, n := range r.Notes() {
		codes[n.Code]++
	}
	for code, n := range codes {
		out <- prometheus.MustNewConstMetric(count, prometheus.GaugeValue, float64(n), string(code))
	}
}
