package agent

import (
	"slices"
	"time"
)

// leavePatience is how long the command Leave waits, beside the longest handover.
const leavePatience = 30 * time.Second

func mayLeave(s stage) bool { return slices.Contains([]stage{"", quiet, gated, refused}, s) }

// underWay returns what has to end before the supervisor may leave; empty for nothing. What waits for a time is no reason: the
// times are carried.
func (d *decision) underWay() string {
	newest := d.newest()
	switch {
	case d.families == 0:
		return "no Envoy has been started yet"
	case !mayLeave(d.handover.stage):
		return "a handover is under way: " + string(d.handover.stage)
	case len(d.epochs) > mostCarried:
		return "a replaced Envoy drains"
	case newest == nil && d.retryAt.IsZero():
		return "no Envoy runs"
	case newest == nil:
		return ""
	case newest.draining:
		return "a replaced Envoy drains"
	case newest.killed:
		return "Envoy is being replaced"
	case newest.liveAt.IsZero():
		return "Envoy is starting"
	case d.now.Before(d.held):
		return "a parent that ended early is stood in for"
	}
	return ""
}

// leave takes the command to leave.
func (d *decision) leave() {
	d.leaveBy = d.now.Add(d.HandoverTimeout + d.ParentShutdown + parentGrace + leavePatience)
}

// advanceLeave leaves once nothing is under way, and gives up when it was patient enough.
func (d *decision) advanceLeave() {
	if d.leaveBy.IsZero() {
		return
	}
	switch why := d.underWay(); {
	case why == "":
		d.leaveBy = time.Time{}
		d.do(leave{})
	case d.due(d.leaveBy):
		d.leaveBy = time.Time{}
		d.note(Stayed, -1, why)
	}
}
