package cloudfoundry

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// How publishers announce routes, as gorouter requests it.
const (
	DefaultInterval  = 20 * time.Second
	DefaultThreshold = 120 * time.Second
)

// Source sends the routes that are announced on NATS. Only one Run may be active at a time. It holds the routes between
// two runs.
type Source struct {
	broker    Broker
	id        string
	hosts     []string      // of this program, for publishers' logs
	interval  time.Duration // between two announcements of a route
	threshold time.Duration // after which a plain route that was not announced is removed
	counts    counts

	table  *table
	synced bool // an interval has passed since the table was empty
}

// New returns a Source that requests an announcement of each route every interval, and drops a plain one after
// threshold. grant has the hosts of routes that are served; id identifies this router among others; address is its own, if it has one.
func New(b Broker, id string, address netip.Addr, grant model.Grant, interval, threshold time.Duration) *Source {
	s := &Source{
		broker: b, id: id, hosts: []string{}, interval: interval, threshold: threshold, counts: newCounts(), table: newTable(grant, threshold),
	}
	if address.IsValid() {
		s.hosts = append(s.hosts, address.String())
	}
	return s
}

// OpenRegistry marks it as a registry in which anybody may write.
func (s *Source) OpenRegistry() {}

// Run follows the announcements until ctx is done or the broker is lost. It has synced when an interval has passed, in
// which every publisher has announced its routes. After that the loss of the broker loses no routes: a new run begins
// with those of the last one.
func (s *Source) Run(ctx context.Context, updates chan<- model.Update) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := s.broker.connect(ctx)
	if ctx.Err() != nil {
		if err == nil {
			c.end()
		}
		return nil // it was stopped
	}
	if err != nil {
		return err
	}
	defer c.end()
	defer cancel() // runs before c.end, so that the goroutine that delivers messages does not block
	in := make(chan *nats.Msg)
	// One subscription, as in gorouter: with several, messages would overtake each other, for example an announcement
	// its withdrawal.
	_, err = c.Subscribe("router.*", func(m *nats.Msg) {
		select {
		case in <- m:
		case <-ctx.Done():
		}
	})
	if err == nil {
		err = c.Publish("router.start", s.start())
	}
	if err == nil {
		err = c.answer(ctx, dialTimeout)
	}
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("subscribe to router.*: %w", err)
	}
	return s.follow(ctx, c, in, updates)
}

func (s *Source) start() []byte { return startMessage(s.id, s.hosts, s.interval, s.threshold) }

func (s *Source) follow(ctx context.Context, c *connection, in <-chan *nats.Msg, updates chan<- model.Update) error {
	s.table.refresh(time.Now())
	s.table.markAll()
	every := max(s.threshold/4, 10*time.Millisecond)
	sweep := time.NewTicker(every)
	defer sweep.Stop()
	swept := time.Now()
	var told <-chan time.Time // until everything was announced once
	if !s.synced {
		told = time.After(s.interval)
	}
	pending := model.Update{Groups: map[string]model.Group{}}
	ready := s.synced // there is something to send: at the start of a later run that the source has synced
	for {
		for key, group := range s.table.unsent() {
			pending.Groups[key] = group
		}
		s.counts.routes.Store(int64(len(s.table.routes)))
		pending.Synced = s.synced
		var out chan<- model.Update
		if ready || len(pending.Groups) > 0 {
			out = updates
		}
		select {
		case <-ctx.Done():
			return nil
		case out <- pending:
			pending, ready = model.Update{Groups: map[string]model.Group{}}, false
		case m := <-in:
			s.takeAll(c, m, in)
		case <-sweep.C:
			now := time.Now()
			switch {
			case now.Sub(swept) > 2*every: // this program was suspended: announcements of that time are still to be read
				s.table.refresh(now)
			case !s.table.due(now):
			case c.answer(ctx, flushTimeout) == nil:
				s.counts.pruned.Add(float64(s.table.sweep(now)))
			case ctx.Err() == nil:
				return s.lost(ctx, errors.New("the broker does not answer: nothing is pruned"))
			}
			swept = time.Now()
		case <-told:
			s.synced, ready = true, true
		case err := <-c.fault:
			return s.lost(ctx, err)
		case <-c.ended:
			return s.lost(ctx, c.reason())
		}
	}
}

// lost returns why a run ends; nil if it was stopped, which closes the connection too. If messages were dropped, the
// table may be wrong: the next run begins with an empty one.
func (s *Source) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	if errors.Is(err, nats.ErrSlowConsumer) {
		s.table, s.synced = newTable(s.table.grant, s.threshold), false
		return errors.New("follow router.*: messages came faster than they could be read, and some were dropped")
	}
	return fmt.Errorf("follow router.*: %w", err)
}

// burst is how many messages are handled before other events are checked.
const burst = 1024

// takeAll handles a message and those that have already arrived.
func (s *Source) takeAll(c *connection, m *nats.Msg, in <-chan *nats.Msg) {
	for range burst {
		s.receive(c, m)
		select {
		case m = <-in:
		default:
			return
		}
	}
	s.receive(c, m)
}

func (s *Source) receive(c *connection, m *nats.Msg) {
	refused := 0
	switch m.Subject {
	case "router.register":
		refused = s.table.register(m.Data, time.Now())
	case "router.unregister":
		refused = s.table.unregister(m.Data, time.Now())
	case "router.greet":
		if !mayAnswer(m.Reply) {
			refused = 1
		} else if err := c.Publish(m.Reply, s.start()); err != nil {
			refused = 1 // the connection has ended, which ends the run with an error, or the subject is not valid
		}
	default:
		return // a message of another router
	}
	s.counts.message(m.Subject, refused > 0)
}

// counts are the counters of the source.
type counts struct {
	routes   *atomic.Int64
	pruned   prometheus.Counter
	messages *prometheus.CounterVec
	gauge    prometheus.GaugeFunc
}

func newCounts() counts {
	c := counts{
		routes: new(atomic.Int64),
		pruned: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pilotlight_cloudfoundry_pruned_total",
			Help: "Plain instances of Cloud Foundry that were dropped because they were not announced again.",
		}),
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pilotlight_cloudfoundry_messages_total",
			Help: "Messages on NATS by subject and result: taken; malformed, of which at least one route was left out.",
		}, []string{"subject", "result"}),
	}
	c.gauge = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pilotlight_cloudfoundry_routes", Help: "Routes of Cloud Foundry with at least one instance.",
	}, func() float64 { return float64(c.routes.Load()) })
	return c
}

func (c counts) message(subject string, malformed bool) {
	result := "taken"
	if malformed {
		result = "malformed"
	}
	c.messages.WithLabelValues(subject, result).Inc()
}

// Describe sends the descriptions of the metrics that Collect sends.
func (s *Source) Describe(out chan<- *prometheus.Desc) {
	for _, c := range s.collectors() {
		c.Describe(out)
	}
}

// Collect sends the numbers of messages, routes and pruned instances.
func (s *Source) Collect(out chan<- prometheus.Metric) {
	for _, c := range s.collectors() {
		c.Collect(out)
	}
}

func (s *Source) collectors() []prometheus.Collector {
	return []prometheus.Collector{s.counts.gauge, s.counts.pruned, s.counts.messages}
}
