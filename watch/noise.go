package watch

import "time"

// noise counts events that mean nothing: a log beside a watched file has thousands a second, and each wakes us up.
type noise struct {
	since time.Time
	n     int
}

const (
	noisePeriod = 100 * time.Millisecond
	noiseLimit  = 50 // events in a period; a volume that is mounted or an editor has fewer
)

// loud takes an event at a time, and reports whether there are so many that it is better to be deaf for a while.
func (s *noise) loud(now time.Time) bool {
	if now.Sub(s.since) > noisePeriod {
		*s = noise{since: now}
	}
	s.n++
	return s.n > noiseLimit
}

// deafen gives up every watch until the next arm.
func (a *armed) deafen() {
	a.close()
	a.notify = nil
	clear(a.watched)
}
