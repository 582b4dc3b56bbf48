package envoy

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/health"
	"github.com/pilotlight/pilotlight/agent/procnet"
	"github.com/pilotlight/pilotlight/watch"
)

// The agent queries the admin of a serving epoch at intervals. These queries are most of the CPU time of an idle agent.
// A stop or an exit of the process needs no query: the kernel reports it at once, see Proxy.Stirred.
const (
	askInterval       = 3 * time.Second         // between two queries of an epoch that answers
	probeInterval     = 1500 * time.Millisecond // between two queries of one that does not, and a query's timeout
	receivedInterval  = 10 * time.Second        // between two queries for rejected configuration, which cost Envoy some work
	diagnosisInterval = 5 * time.Second         // between two diagnoses of the connection to discovery
	linkInterval      = time.Second             // between two queries of what a starting Envoy waits for
	muteTime          = time.Second             // that a starting Envoy has for the socket of its admin, before queries that fail count
)

// watch observes the process until ctx ends, and reports when it is live and when it hangs.
func (c *process) watch(ctx context.Context, report func(agent.Report)) {
	facts, err := procnet.OpenStat(c.pid)
	if err != nil {
		return // it has ended already
	}
	defer facts.Close()
	defer c.diagnosing.Wait()
	var kept sync.WaitGroup // see keepParent
	defer kept.Wait()
	began := time.Now()
	starting, started := context.WithTimeout(ctx, muteTime)
	watch.Appears(starting, c.admin.Socket) // it takes Envoy most of its start, and a query that fails costs more
	started()
	var asked time.Time // when configuration was last queried
	c.linked = began    // no query of the link right after the fork
	var next time.Time  // of the next query; a read of the process's state leaves it as it is
	hung, answers := false, false
	for ctx.Err() == nil {
		seen, err := facts.Read()
		query := !time.Now().Before(next) || !c.live.Load() || !answers || err != nil || seen.Stopped()
		if query {
			c.news, c.free = false, false
			o := c.observe(ctx, seen, err == nil, &asked)
			if ctx.Err() != nil {
				return // the query was cut short, which is no silence of Envoy's
			}
			answers = o.Answer != nil
			verdict := c.judge(o, time.Now())
			if verdict.Refusing || !verdict.Holds(health.ListenersBound) {
				asked = time.Time{} // query at the next observation, to see the recovery early
			}
			switch {
			case !c.live.Load() && c.serves(verdict):
				c.live.Store(true)
				c.served(c)
				c.parent = nil // else the memory of no epoch would be freed
				c.keepParent(ctx, &kept)
				report(agent.Live)
			case verdict.Replace && !hung:
				hung = true
				c.Log.Warn("Envoy hangs", "epoch", c.launch.Epoch, "pid", c.pid, "hang", string(verdict.Hang))
				report(agent.Hung)
			}
		}
		if c.free && c.live.Load() {
			c.free = false
			report(agent.Incomplete)
		}
		if c.news && c.live.Load() {
			c.news = false
			report(agent.News)
		}
		c.knock(ctx, report)
		if query {
			interval := askInterval
			switch {
			case !c.live.Load():
				interval = pollInterval(time.Since(began))
			case !answers:
				interval = probeInterval
			}
			next = time.Now().Add(interval)
		}
		select {
		case <-ctx.Done():
		case <-c.stirred: // read the process's state, without a query
		case <-time.After(time.Until(next)):
		}
	}
}

// Stirred makes each watch read its process's state now: the caller has received a SIGCHLD, so one of the processes may
// have been stopped.
func (p *Proxy) Stirred() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.processes {
		select {
		case c.stirred <- struct{}{}:
		default: // a read is due already
		}
	}
}

// pollInterval is short while Envoy starts (100 to 200 ms on an idle machine), and grows while Envoy waits for
// something else, such as discovery.
func pollInterval(waited time.Duration) time.Duration {
	return min(max(waited/50, 5*time.Millisecond), 100*time.Millisecond)
}

// observe combines the kernel's facts about the process with the answers of its admin: whether it is ready and, at
// intervals, which configuration it has received.
func (c *process) observe(ctx context.Context, facts procnet.Stat, exists bool, asked *time.Time) health.Observation {
	o := health.Observation{
		Pid: c.pid, Epoch: c.launch.Epoch, AdminExpected: true,
		AsksCDS: asks(c.launch.Config, "cds_config"), AsksLDS: asks(c.launch.Config, "lds_config"),
		Delta: asks(c.launch.Config, deltaVariant),
	}
	if !exists {
		return o
	}
	o.Process, o.CPU = health.Running, facts.CPU
	if facts.Stopped() {
		o.Process = health.Stopped
		return o
	}
	if facts.Traced() {
		o.Process = health.Traced
	}
	if c.Certificates != nil {
		o.CertificateFault, o.CertificateEnds, o.NoCertificate = c.Certificates(c.started)
	}
	if c.Relayed != nil {
		o.Relayed = c.Relayed(c.started)
	}
	o.Reads = c.admin.read.Load() > 0
	err := c.ready(ctx)
	o.Reads = o.Reads || c.admin.read.Load() > 0
	o.Answers = c.admin.answered.Swap(false)
	switch {
	case ownFailure(err):
		o.Unasked = err.Error()
	case err == nil || errors.Is(err, errNotReady):
		o.Answer = &health.Answer{Epoch: c.launch.Epoch, Ready: err == nil, State: stateIn(err)}
		c.unsucceeded()
	case c.live.Load() && closed(err) && c.succeeded.Load():
		o.AdminExpected = false // a newcomer has closed the admin; the process serves on
	case closed(err):
		o.Deaf = true // its socket was removed: the agent can neither query nor drain it
	}
	if err == nil && (!c.live.Load() || time.Since(*asked) >= receivedInterval || c.rejectedSince(*asked)) {
		*asked = time.Now()
		o.Config = c.configuration(ctx)
	}
	if errors.Is(err, errNotReady) && o.AsksCDS && time.Since(c.linked) >= linkInterval {
		c.linked = time.Now()
		o.Link = c.link(ctx, o.Relayed)
		o.Answer.Waits = c.admin.waits(ctx)
	}
	return o
}

// ready queries /ready. Its timeout is shorter than the two seconds after which package health reports silence.
func (c *process) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeInterval)
	defer cancel()
	return c.admin.Ready(ctx)
}

// asks reports whether the bootstrap, JSON or YAML, contains a key.
func asks(config agent.Config, key string) bool { return strings.Contains(config.Bootstrap, key) }

// closed reports whether no process listens at the socket. It is false if one listens and does not answer.
func closed(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}

// stateIn returns the state in the answer of /ready.
func stateIn(err error) string {
	if err == nil {
		return "LIVE"
	}
	_, state, _ := strings.Cut(err.Error(), ": ")
	return state
}

func (c *process) judge(o health.Observation, now time.Time) health.Verdict {
	c.healthMu.Lock()
	c.health = c.health.Next(o, now)
	verdict := c.health.Verdict(now)
	c.healthMu.Unlock()
	if c.Judged != nil {
		c.Judged()
	}
	return verdict
}

// serves reports whether the epoch has taken over: all conditions that it needs are true. Certificates do not count: Envoy has them
// already, or waits for them.
func (c *process) serves(v health.Verdict) bool {
	for _, condition := range v.Conditions {
		if !condition.Status && c.needs(condition.Type) {
			return false
		}
	}
	return true
}

// needs reports whether an epoch needs a condition before it takes over. An Envoy whose listeners were rejected must
// not replace one that has good listeners: a gate has seen to that. Without a gate, and with hot restart, it cannot be prevented: once the
// newcomer's workers run, it has made its parent close its listeners.
func (c *process) needs(t health.Type) bool {
	switch t {
	case health.CertificatesValid:
		return false
	case health.ListenersBound:
		return c.parent != nil && !c.launch.Hot() && c.gate == nil
	}
	return true
}

// Health returns the verdict on the epoch that serves, else on the newest.
func (p *Proxy) Health() health.Verdict {
	c, now := p.serving(), time.Now()
	if c == nil {
		return health.State{}.Next(health.Observation{}, now).Verdict(now)
	}
	c.healthMu.Lock()
	defer c.healthMu.Unlock()
	return p.bypass.get().Add(c.health.Verdict(now))
}
