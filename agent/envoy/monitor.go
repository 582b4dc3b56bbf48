package envoy

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/health"
)

// An epoch that serves is asked now and then, which costs the agent most of what it uses while nothing happens. That it was
// stopped, or has ended, the kernel says at once: see Proxy.Stirred.
const (
	askInterval       = 3 * time.Second         // between two questions to an epoch that answers
	probeInterval     = 1500 * time.Millisecond // between two to one that does not, and what a question may take
	receivedInterval  = 10 * time.Second        // between two looks for rejected configuration, which cost Envoy some work
	diagnosisInterval = 5 * time.Second         // between two looks why it waits
	linkInterval      = time.Second             // between two looks for what an Envoy waits for
	caughtUpLimit     = 2 * time.Second         // that a newcomer may have fewer listeners than its parent, for it may want fewer
)

// watch observes the process until ctx ends, and reports when it is live and when it hangs.
func (c *process) watch(ctx context.Context, report func(agent.Report)) {
	facts, err := openFacts(c.pid)
	if err != nil {
		return // it has ended already
	}
	defer facts.Close()
	defer c.diagnosing.Wait()
	began := time.Now()
	var asked time.Time // when configuration was last asked for
	c.linked = began    // at first, it merely starts
	hung, answers := false, false
	for due := true; ctx.Err() == nil; {
		seen, err := facts.read()
		if due || !c.live.Load() || !answers || err != nil || seen.Stopped() {
			o := c.observe(ctx, seen, err == nil, &asked)
			answers = o.Answer != nil
			verdict := c.judge(o, time.Now())
			if verdict.Degraded != "" || !verdict.Holds(health.ListenersBound) {
				asked = time.Time{} // that it is mended shall be seen as soon
			}
			switch {
			case ctx.Err() != nil:
				return
			case !c.live.Load() && c.serves(verdict, began):
				c.live.Store(true)
				c.served(c)
				c.parent = nil // or no epoch's memory would ever be freed
				report(agent.Live)
			case verdict.Replace && !hung:
				hung = true
				c.Log.Warn("Envoy hangs", "epoch", c.launch.Epoch, "pid", c.pid, "hang", string(verdict.Hang))
				report(agent.Hung)
			}
		}
		interval := askInterval
		switch {
		case !c.live.Load():
			interval = pollInterval(time.Since(began))
		case !answers:
			interval = probeInterval
		}
		select {
		case <-ctx.Done():
		case <-c.stirred:
			due = false // look at the process alone
		case <-time.After(interval):
			due = true
		}
	}
}

// Stirred has every process looked at now: the caller got a SIGCHLD, so one of them may have been stopped.
func (p *Proxy) Stirred() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.processes {
		select {
		case c.stirred <- struct{}{}:
		default: // it is about to be looked at
		}
	}
}

// pollInterval is short while Envoy starts (100 to 200 ms on an idle machine), and relaxes when it waits for
// something else, such as discovery.
func pollInterval(waited time.Duration) time.Duration {
	return min(max(waited/50, 5*time.Millisecond), 100*time.Millisecond)
}

// observe judges what the kernel says of the process, asks its admin whether it is ready, and now and then what it has
// received.
func (c *process) observe(ctx context.Context, facts Facts, exists bool, asked *time.Time) health.Observation {
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
	if c.CertificateFault != nil {
		o.CertificateFault = c.CertificateFault()
	}
	err := c.ready(ctx)
	switch {
	case ownFailure(err):
		o.Unasked = err.Error()
	case err == nil || errors.Is(err, errNotReady):
		o.Answer = &health.Answer{Epoch: c.launch.Epoch, Ready: err == nil, State: stateIn(err)}
		c.unsucceeded()
	case c.live.Load() && closed(err) && c.succeeded.Load():
		o.AdminExpected = false // a newcomer has closed it; the process serves on
	case closed(err):
		o.Deaf = true // its socket was removed: it cannot be asked, told, or drained
	}
	if err == nil && (!c.live.Load() || time.Since(*asked) >= receivedInterval || c.rejectedSince(*asked)) {
		*asked = time.Now()
		o.Config = c.configuration(ctx)
	}
	if errors.Is(err, errNotReady) && o.AsksCDS && time.Since(c.linked) >= linkInterval {
		c.linked = time.Now()
		o.Link = c.link(ctx)
		o.Answer.Waits = c.admin.waits(ctx)
	}
	return o
}

// ready gives Envoy less time than silence takes to be seen.
func (c *process) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeInterval)
	defer cancel()
	return c.admin.Ready(ctx)
}

// asks finds a key of the bootstrap, in JSON and YAML alike.
func asks(config agent.Config, key string) bool { return strings.Contains(config.Bootstrap, key) }

// closed reports that no process listens at the socket. It is false where one listens and does not answer.
func closed(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}

// stateIn returns what /ready said.
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

// serves reports whether the epoch may take over: everything but the certificates, which Envoy has already or waits
// for, and as many listeners as its parent.
func (c *process) serves(v health.Verdict, began time.Time) bool {
	for _, condition := range v.Conditions {
		if !condition.Status && c.needs(condition.Type) {
			return false
		}
	}
	return c.parent == nil || c.listeners.Load() >= c.parent.listeners.Load() || time.Since(began) > caughtUpLimit
}

// needs reports whether a condition is one for taking over. An Envoy whose listeners discovery spoilt shall not replace one
// that has good ones; by hot restart it has, once its workers run, for it has told its parent to close them.
func (c *process) needs(t health.Type) bool {
	switch t {
	case health.CertificatesValid:
		return false
	case health.ListenersBound:
		return c.parent != nil && !c.launch.Hot()
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
	return c.health.Verdict(now)
}
