package agent

import "time"

const (
	backOffCap   = 30 * time.Second // no delay is longer
	stablePeriod = 5 * time.Minute  // an epoch that served this long refills the budget
	jitter       = 0.2              // a delay varies by this share either way, so that a fleet does not restart as one
)

// failed answers an end that nobody asked for, of whoever served or should have. One that was live is replaced at
// once; else the delay grows.
func (d *decision) failed(gone epoch, exit Exit) {
	wasLive := !gone.liveAt.IsZero()
	if wasLive && d.now.Sub(gone.liveAt) >= stablePeriod {
		d.failures = 0
	}
	d.note(Failed, gone.Epoch, exit.String())
	refused := d.good == Config{} && exit.Code == 1
	d.failures++
	if d.failures > d.budget(refused) {
		d.giveUp(&GaveUp{Exit: exit, Attempts: d.failures, Refused: refused})
		return
	}
	if wasLive {
		d.startFresh()
		return
	}
	var delay time.Duration
	delay, d.seed = d.backOff(d.failures-1, d.seed)
	d.retryAt = d.now.Add(delay)
}

// startFresh starts an epoch that has no parent: with the configuration that has served, else with the desired one.
func (d *decision) startFresh() {
	config := d.good
	if config == (Config{}) {
		config = d.desired
	}
	d.start(config, false)
}

// budget is how many failures in a row are retried. A refusal of its own configuration at first start will not mend
// itself, so it is worth one more try only.
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
