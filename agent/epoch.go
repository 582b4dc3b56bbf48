package agent

import (
	"slices"
	"syscall"
	"time"
)

// epoch is one process of Envoy. The newest epoch serves, or is starting; an older one serves until a newer one is live,
// and then drains.
type epoch struct {
	Launch
	startedAt      time.Time
	liveAt         time.Time // zero before it is live
	draining       bool      // a newer epoch has taken over
	idle           bool      // it drains, and no work is left
	drainedInbound bool      // it has begun to close its inbound connections, which cannot be undone
	awaitsDrain    bool      // Envoy has not answered that order yet
	killed         bool      // KILL was sent
	late           bool      // since its deadline was over
	blind          bool      // a newcomer that failed has closed its admin
	deadline       time.Time // when to kill a newcomer that is not live, or a parent that still runs; zero for never
}

// Launch describes an epoch to start.
type Launch struct {
	Epoch int `json:"Epoch"` // the agent's number: newest + 1, 0 when no epoch runs
	// Family numbers the epochs that share a base-id, from 0; each start that is no hot restart begins a new one
	Family  int    `json:"Family"`
	Restart int    `json:"Restart"` // Envoy's restart epoch within the family
	Config  Config `json:"Config"`
}

// Hot reports whether the epoch takes over from a parent by hot restart.
func (l Launch) Hot() bool { return l.Restart > 0 }

// parentGrace is the time between ParentShutdown, when the newcomer sends its parent the message to terminate, and the
// KILL of a parent that still runs.
const parentGrace = 2 * time.Second

func (d *decision) find(number int) *epoch {
	if i := slices.IndexFunc(d.epochs, func(e epoch) bool { return e.Epoch == number }); i >= 0 {
		return &d.epochs[i]
	}
	return nil
}

// newest returns the newest epoch: the one that serves or is to serve; nil when no epoch runs.
func (s *state) newest() *epoch {
	if len(s.epochs) == 0 {
		return nil
	}
	return &s.epochs[len(s.epochs)-1]
}

// start starts the next epoch: by hot restart in the family of the newest one, or as the first epoch of a new family.
func (d *decision) start(config Config, hot bool) *epoch {
	launch := Launch{Config: config}
	if newest := d.newest(); newest != nil {
		launch.Epoch = newest.Epoch + 1
		launch.Family, launch.Restart = newest.Family, newest.Restart+1
	}
	if !hot || len(d.epochs) == 0 {
		launch.Family, launch.Restart = d.families, 0
		d.families++
	}
	d.epochs = append(d.epochs, epoch{Launch: launch, startedAt: d.now})
	d.retryAt = time.Time{}
	d.note(Starting, launch.Epoch, "")
	d.do(start{launch})
	return d.newest()
}

// kill ends an epoch with KILL. TERM would not do: a newcomer that terminates by itself ends its parent too.
func (d *decision) kill(e *epoch) {
	e.deadline = time.Time{}
	if !e.killed {
		e.killed = true
		d.do(signal{e.Epoch, syscall.SIGKILL})
	}
}

// fit lets a newcomer take over that is held. From then on its parent may have closed its listeners: so it has HandoverTimeout anew, and
// one that is to be killed is not let through.
func (d *decision) fit(number int) {
	e := d.find(number)
	if e == nil || e.killed || !e.liveAt.IsZero() || d.stopping.stage != notStopping {
		return
	}
	if !e.deadline.IsZero() {
		e.deadline = d.now.Add(d.HandoverTimeout)
	}
	d.do(open{number})
}

// live records that an epoch serves, and drains every older one.
func (d *decision) live(number int) {
	e := d.find(number)
	if e == nil || !e.liveAt.IsZero() || e.killed {
		return
	}
	e.liveAt, e.deadline = d.now, time.Time{}
	d.good = e.Config
	d.note(Serving, number, "")
	if d.refusal.config == e.Config {
		d.refusal = refusal{}
	}
	if d.stopping.stage != notStopping {
		return
	}
	if d.drained {
		d.drainInbound(e)
	}
	for i := range d.epochs {
		if older := &d.epochs[i]; older.Epoch < number && !older.draining {
			d.replace(older, e)
		}
	}
	d.committed()
}

// replace drains an older epoch. Within one family Envoy does it: the newcomer sends its parent the message to drain, and
// after ParentShutdown the message to terminate. An older epoch that is idle before then is terminated early, since the
// next handover waits for its exit.
func (d *decision) replace(older, newcomer *epoch) {
	older.draining = true
	if older.killed {
		return
	}
	older.deadline = d.now.Add(d.ParentShutdown + parentGrace)
	if older.Family == newcomer.Family {
		d.do(await{older.Epoch})
	} else {
		d.do(drain{older.Epoch})
	}
}

// idle records that an epoch has no work left, and terminates it if it drains.
func (d *decision) idle(number int) {
	e := d.find(number)
	if e == nil || e.idle {
		return
	}
	e.idle = true
	if e.draining && d.stopping.stage == notStopping {
		d.do(signal{number, syscall.SIGTERM})
	}
}

// exited judges an exit by the role of the epoch (newest, replaced, stopped by the supervisor), not by its exit status.
func (d *decision) exited(number int, exit Exit) {
	found := d.find(number)
	if found == nil {
		return
	}
	gone, wasNewest := *found, d.newest().Epoch == number
	var left []epoch
	for _, e := range d.epochs {
		if e.Epoch != number {
			left = append(left, e)
		}
	}
	d.epochs = left
	switch newest := d.newest(); {
	case d.stopping.stage != notStopping:
		d.note(Stopped, number, exit.String())
		if gone.draining {
			d.standIn(gone, d.find(number+1))
		}
	case gone.draining:
		d.note(Replaced, number, exit.String())
		d.parentGone(gone, d.find(number+1), exit)
	case !wasNewest && gone.liveAt.IsZero():
		d.note(Replaced, number, exit.String()) // it never served, and its successor runs
	case !wasNewest:
		d.parentLost(gone, newest, exit)
	case newest != nil && !newest.draining && !newest.killed:
		d.rollBack(gone, exit)
	default:
		d.failed(gone, exit)
	}
	d.reopen()
}

// parentGone handles the exit of a replaced epoch.
func (d *decision) parentGone(parent epoch, newcomer *epoch, exit Exit) {
	if !succeeds(newcomer, parent) {
		return
	}
	told := newcomer.liveAt.Add(d.ParentShutdown)
	if !parent.idle && (exit.Code != 0 || d.now.Before(told.Add(-parentGrace/2))) {
		d.note(Rescuing, parent.Epoch, "")
	}
	d.standIn(parent, newcomer)
}

// standIn has another socket receive the message to terminate that the newcomer of a replaced epoch sends after
// ParentShutdown, or when it ends itself: without a receiver it would retry for ten seconds, and abort. The core cannot
// see whether the message was sent before; a rescue that was not needed is harmless.
func (d *decision) standIn(parent epoch, newcomer *epoch) {
	if !succeeds(newcomer, parent) {
		return
	}
	if until := newcomer.liveAt.Add(d.ParentShutdown + parentGrace); d.now.Before(until) {
		d.held = until
		d.do(rescue{parent.Launch, until})
	}
}

// succeeds reports whether a newcomer, nil for none, has taken over from a parent by hot restart.
func succeeds(newcomer *epoch, parent epoch) bool {
	return newcomer != nil && newcomer.Family == parent.Family && newcomer.Restart == parent.Restart+1
}

// parentLost handles the death of the serving epoch before its newcomer was live. A newcomer of the same family would wait
// for its parent and then abort, so it is killed and a fresh epoch starts. A newcomer of another family goes on: it becomes
// live, or is killed at its deadline, after which the last good configuration starts again.
func (d *decision) parentLost(parent epoch, newcomer *epoch, exit Exit) {
	d.restored()
	if newcomer.Family != parent.Family {
		return
	}
	d.kill(newcomer)
	d.failed(parent, exit)
}

const (
	backOffCap   = 30 * time.Second // no delay is longer
	stablePeriod = 5 * time.Minute  // this much service refills the budget
	savedBudgets = 5                // longer service saves up at most so many budgets more
	jitter       = 0.2              // a delay varies by this share either way, so that a fleet does not restart all at once
)

// failed handles the unexpected exit of the epoch that served or was to serve. An epoch that was live is replaced at
// once, as long as there is budget; else after a delay that grows.
func (d *decision) failed(gone epoch, exit Exit) {
	wasLive := !gone.liveAt.IsZero()
	if wasLive {
		d.earn(d.now.Sub(gone.liveAt))
	}
	d.note(Failed, gone.Epoch, exit.String())
	if d.awaitsNewcomer() {
		d.restored() // both have died: what starts now takes over from nobody
	}
	refused := d.good == Config{} && exit.Code == 1
	d.failures++
	if d.failures > d.budget(refused)+d.saved {
		d.giveUp(&GaveUp{Exit: exit, Attempts: d.failures, Refused: refused})
		return
	}
	if wasLive && d.failures <= d.RestartBudget {
		d.startFresh()
		return
	}
	attempt := d.failures - 1
	if wasLive {
		attempt -= d.RestartBudget
	}
	var delay time.Duration
	delay, d.seed = d.backOff(attempt, d.seed)
	d.retryAt = d.now.Add(delay)
}

// earn converts served time into restarts: stablePeriod is worth the whole budget. Each restart forgives one earlier
// failure; the rest is saved.
func (d *decision) earn(served time.Duration) {
	if d.RestartBudget == 0 {
		return
	}
	each := stablePeriod / time.Duration(d.RestartBudget)
	d.served += served
	earned := int(d.served / each)
	d.served %= each
	forgiven := min(earned, d.failures)
	d.failures -= forgiven
	d.saved = min(d.saved+earned-forgiven, savedBudgets*d.RestartBudget)
}

// startFresh starts an epoch that has no parent: with the last configuration that served, else with the desired one.
func (d *decision) startFresh() {
	config := d.good
	if config == (Config{}) {
		config = d.desired
	}
	d.start(config, false)
}

// budget returns how many failures in a row are retried. An Envoy that refuses its configuration at the first start
// will do so again, so it is retried only once.
func (c Settings) budget(refused bool) int {
	if refused {
		return min(1, c.RestartBudget)
	}
	return c.RestartBudget
}

// backOff returns the delay before retry number attempt, from 0, and the next seed.
func (c Settings) backOff(attempt int, seed uint64) (time.Duration, uint64) {
	delay := backOffCap
	if shifted := c.BackOffBase << min(attempt, 30); shifted > 0 && shifted < backOffCap {
		delay = shifted
	}
	// The multiplier and increment are those of Knuth's MMIX generator: enough to spread a fleet.
	seed = seed*6364136223846793005 + 1442695040888963407
	share := 1 - jitter + 2*jitter*float64(seed>>11)/(1<<53)
	return min(time.Duration(float64(delay)*share), backOffCap), seed
}
