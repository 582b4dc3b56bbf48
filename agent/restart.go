package agent

import "time"

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
