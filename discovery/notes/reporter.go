package notes

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotlight/pilotlight/discovery/model"
)

const (
	// again is how often a mesh is judged that does not change: proxies come and go.
	again = 30 * time.Second
	// Between two judgements there is a second at least, and 20 times what the last one took: at most 5 % of a CPU.
	least, share = time.Second, 20
	// most is how many notes of one judgement are logged; /debug/notes has all.
	most = 100
)

// Teller tells the notes of the newest mesh. New makes one.
type Teller struct {
	connected func() []model.Proxy
	log       *slog.Logger
	meshes    chan *model.Mesh // the newest
	soon      chan struct{}    // the same mesh is to be judged again
	notes     atomic.Pointer[[]model.Note]
}

// New returns a Teller; connected are the proxies that are connected now.
func New(connected func() []model.Proxy, log *slog.Logger) *Teller {
	t := &Teller{connected: connected, log: log, meshes: make(chan *model.Mesh, 1), soon: make(chan struct{}, 1)}
	t.notes.Store(&[]model.Note{})
	return t
}

// Judge takes the newest mesh, in the place of one that was not looked at yet. It returns at once. It is called by one
// goroutine at a time.
func (t *Teller) Judge(m *model.Mesh) {
	select {
	case <-t.meshes:
	default:
	}
	t.meshes <- m
}

// Again has the newest mesh judged once more, since a proxy has said something of it. It returns at once.
func (t *Teller) Again() {
	select {
	case t.soon <- struct{}{}:
	default:
	}
}

// Notes returns what was noted last.
func (t *Teller) Notes() []model.Note { return *t.notes.Load() }

// Run judges meshes until ctx is done.
func (t *Teller) Run(ctx context.Context) error {
	var mesh *model.Mesh
	for {
		var unchanged <-chan time.Time
		if mesh != nil {
			unchanged = time.After(again)
		}
		select {
		case <-ctx.Done():
			return nil
		case mesh = <-t.meshes:
		case <-unchanged:
		case <-t.soon:
		}
		if mesh == nil {
			continue
		}
		began := time.Now()
		t.tell(mesh.Notes(t.connected()...))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(least, share*time.Since(began))):
		}
	}
}

// tell logs what is new and what is mended.
func (t *Teller) tell(now []model.Note) {
	added, mended := difference(t.Notes(), now)
	t.notes.Store(&now)
	for _, n := range added[:min(len(added), most)] {
		t.log.Warn("configuration note", about(n)...)
	}
	for _, n := range mended[:min(len(mended), most)] {
		t.log.Info("configuration note mended", about(n)...)
	}
	if untold := max(len(added)-most, 0) + max(len(mended)-most, 0); untold > 0 {
		t.log.Warn("more configuration notes: see /debug/notes", "count", untold)
	}
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
func (t *Teller) Describe(out chan<- *prometheus.Desc) { out <- count }

// Collect counts the notes by code. A code that was noted never is not there.
func (t *Teller) Collect(out chan<- prometheus.Metric) {
	codes := map[model.Code]int{}
	for _, n := range t.Notes() {
		codes[n.Code]++
	}
	for code, n := range codes {
		out <- prometheus.MustNewConstMetric(count, prometheus.GaugeValue, float64(n), string(code))
	}
}
