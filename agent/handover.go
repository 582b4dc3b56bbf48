package agent

import "time"

// Way is how a newcomer takes over.
type Way string

const (
	Auto       Way = "auto"         // hot, or side-by-side where hot restart is impossible or has failed twice
	Hot        Way = "hot"          // Envoy's hot restart: listen sockets are passed on
	SideBySide Way = "side-by-side" // another family on the same reuse_port ports, then the old one drains
)

// handover is the transaction that replaces the newest epoch by one of the desired configuration. The zero handover
// is none.
type handover struct {
	stage  stage
	began  time.Time // when its first change arrived
	due    time.Time // when the next step of the stage is due; zero when it waits for an event
	hot    bool      // the two Envoys can do a hot restart
	failed int       // newcomers that failed
	again  bool      // in stage restoring: what was refused is to be checked again
}

type stage string

const (
	quiet    stage = "quiet"    // more changes may come
	checking stage = "checking" // a check is under way
	gated    stage = "gated"    // checked; there must be room for a newcomer first
	starting stage = "starting" // a newcomer is starting
	// restoring: an epoch of the running configuration is starting side by side, since the one that serves has lost its admin.
	restoring stage = "restoring"
	refused   stage = "refused" // by a check, or since discovery gave a newcomer too little; it is checked again
)

const (
	quietPeriod  = 100 * time.Millisecond // without a change, before the handover goes on
	quietCeiling = 10 * time.Second       // longest wait, from the first change
	hotAttempts  = 2                      // before side-by-side
	allAttempts  = 3
	retryPause   = time.Second // before the third newcomer
	recheckPause = time.Minute // between two checks of a refused configuration
)

// configured takes a new desired configuration. It starts with a fresh budget.
func (d *decision) configured(config Config) {
	if config == d.desired || d.stopping.stage != notStopping {
		return
	}
	d.desired, d.refusal, d.failures = config, refusal{}, 0
	switch newest := d.newest(); {
	case newest == nil:
		// Without a check before: no other epoch serves, so Envoy may refuse it at start. A handover that began before the last one
		// died ends here, for the result of its check is outdated.
		d.handover = handover{}
		d.start(config, false)
	case d.awaitsNewcomer():
		// The running handover is finished first.
	case newest.Config == config && !d.mustRefresh():
		d.handover = handover{}
	default:
		d.quiet()
	}
}

// awaitsNewcomer reports whether a handover is under way that cannot be taken back.
func (d *decision) awaitsNewcomer() bool {
	return d.handover.stage == starting || d.handover.stage == restoring
}

// quiet waits until no change has come for quietPeriod, at most quietCeiling.
func (d *decision) quiet() {
	began := d.handover.began
	if began.IsZero() {
		began = d.now
	}
	due := d.now.Add(quietPeriod)
	if ceiling := began.Add(quietCeiling); due.After(ceiling) {
		due = ceiling
	}
	d.handover = handover{stage: quiet, began: began, due: due}
}

func (d *decision) advanceHandover() {
	switch h := &d.handover; {
	case (h.stage == quiet || h.stage == refused) && d.due(h.due):
		if h.stage == refused {
			h.began = d.now
		}
		h.stage, h.due = checking, time.Time{}
		d.do(check{d.desired})
	case h.stage == gated && d.due(h.due):
		d.throughGate()
	}
}

// checked takes the result of a check. After a refusal the running epoch serves on.
func (d *decision) checked(e checked) {
	if d.handover.stage != checking || e.config != d.desired {
		return // the result of an outdated check
	}
	fault := e.fault
	if fault == "" && d.HandoverWay == Hot && !e.hot {
		fault = "hot restart is not possible, and no other way is allowed"
	}
	if fault != "" {
		d.refuseForNow(fault)
		return
	}
	d.handover.stage, d.handover.hot, d.handover.due = gated, e.hot, d.now
}

// refuseForNow refuses for a reason that may go away: it is checked again after recheckPause, or at recheck.
func (d *decision) refuseForNow(reason string) {
	d.refuse(reason)
	d.handover = handover{stage: refused, due: d.now.Add(recheckPause)}
}

// recheck checks a refused configuration again, since something has changed on which the check depends.
func (d *decision) recheck() {
	if d.handover.stage == refused {
		d.handover.due = d.now
	}
}

// incomplete hands over to another epoch of what is desired, if nothing else is under way.
func (d *decision) incomplete(number int) {
	newest := d.newest()
	if newest != nil && newest.Epoch == number && !newest.liveAt.IsZero() && !newest.killed &&
		d.handover.stage == "" && d.refusal == (refusal{}) && d.stopping.stage == notStopping {
		d.quiet()
	}
}

// refuse ends the handover, and the running epoch serves on. A reason that was noted before is not noted again.
func (d *decision) refuse(reason string) {
	d.handover = handover{}
	if d.refusal.config == d.desired && d.refusal.reason == reason {
		return
	}
	d.note(Rejected, -1, reason)
	d.refusal = refusal{config: d.desired, reason: reason, at: d.now}
}

// crowded reports whether the next newcomer has to wait until an epoch leaves. A second parent may go on with its work beside the third
// epoch of a family, but not beside a fourth, which would have its sockets' names. One that is idle leaves soon. With Hot alone the next
// newcomer always waits.
func (d *decision) crowded() bool {
	if len(d.epochs) != 2 {
		return len(d.epochs) != 1
	}
	older, newest := d.epochs[0], d.epochs[1]
	return d.HandoverWay == Hot || !older.draining || older.idle || older.killed || newest.liveAt.IsZero() ||
		older.Family == newest.Family && newest.Restart > older.Restart+1
}

// throughGate starts the newcomer once there is room for it: see crowded. A newest epoch that has never been live has no connections, so it is killed and a fresh epoch starts at once.
func (d *decision) throughGate() {
	newest := d.newest()
	switch {
	case d.crowded() || newest.killed:
		d.handover.due = time.Time{} // reopen sets it when an epoch exits or becomes live
	case newest.liveAt.IsZero():
		d.handover = handover{}
		d.kill(newest)
		d.start(d.desired, false)
	default:
		d.handover.stage, d.handover.due = starting, time.Time{}
		d.start(d.desired, d.way() == Hot).deadline = d.now.Add(d.HandoverTimeout)
	}
}

// way returns how an epoch takes over, or took over.
func (l Launch) way() Way {
	if l.Hot() {
		return Hot
	}
	return SideBySide
}

// way returns how the next newcomer is to take over.
func (d *decision) way() Way {
	switch {
	case d.HandoverWay != Auto:
		return d.HandoverWay
	case !d.handover.hot || d.handover.failed >= hotAttempts:
		return SideBySide
	}
	return Hot
}

// reopen lets a handover that waits at the gate try again.
func (d *decision) reopen() {
	if d.handover.stage == gated && d.handover.due.IsZero() {
		d.handover.due = d.now
	}
}

// committed ends the handover that a live epoch completes, and begins the next one if the desired configuration has changed
// since.
func (d *decision) committed() {
	newest := d.newest()
	if d.handover.stage == starting {
		d.note(HandedOver, newest.Epoch, string(newest.way()))
		d.took = d.now.Sub(d.handover.began)
		d.handover = handover{}
	}
	if d.handover.stage == restoring {
		d.note(Restored, newest.Epoch, "")
		d.restored()
	}
	if d.handover.stage == "" && newest.Config != d.desired && d.refusal.config != d.desired {
		d.quiet()
	}
	d.reopen()
}

// rollBack handles the exit of a newcomer that was not live yet: its parent serves on.
func (d *decision) rollBack(newcomer epoch, exit Exit) {
	d.note(RolledBack, newcomer.Epoch, exit.String())
	if newcomer.Hot() {
		d.do(repair{newcomer.Launch})
	}
	if exit.Blinded {
		d.newest().blind = true
	}
	d.handover.failed++
	switch {
	case d.handover.stage == restoring && d.refusal.config == d.desired:
		d.restored()
	case newcomer.Config != d.desired:
		d.handover = handover{}
		d.quiet()
	case newcomer.late && exit.Held != "": // another attempt would meet the same
		d.refuseForNow("newcomer held back: " + exit.Held)
		d.restore(true)
	case d.handover.failed >= allAttempts:
		d.refuse("newcomer failed: " + exit.String())
		d.restore(false)
	case d.handover.failed == 1:
		// At once: the newcomer may already have made its parent close its listeners.
		d.handover.stage, d.handover.due = gated, d.now
	default:
		d.handover.stage, d.handover.due = gated, d.now.Add(retryPause)
	}
}

// restore replaces an epoch that has lost its admin by one with the same configuration, side by side, after its newcomer was refused.
// Until then it can be neither asked nor drained by its admin.
func (d *decision) restore(again bool) {
	serving := d.newest()
	if !serving.blind || serving.killed || d.crowded() || d.HandoverWay == Hot {
		return
	}
	d.handover = handover{stage: restoring, again: again}
	d.start(serving.Config, false).deadline = d.now.Add(d.HandoverTimeout)
}

// restored ends the handover, whatever became of it: after stage restoring, what was refused for now is checked again.
func (d *decision) restored() {
	again := d.handover.again
	d.handover = handover{}
	if again && d.refusal.config == d.desired {
		d.handover = handover{stage: refused, due: d.now.Add(recheckPause)}
	}
}
