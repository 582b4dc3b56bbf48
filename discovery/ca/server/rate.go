package server

import "time"

// rateLimiter bounds how often something happens for each key. It remembers most keys.
type rateLimiter struct {
	Rate
	most int
	due  map[string]time.Time // when a key has all its times at once again
}

func newRateLimiter(r Rate, most int) *rateLimiter {
	return &rateLimiter{r, most, map[string]time.Time{}}
}

// wait returns how long a key has to wait; zero if it need not.
func (p *rateLimiter) wait(key string, now time.Time) time.Duration {
	due, known := p.due[key]
	if !known {
		return 0
	}
	return max(0, due.Add(p.Every).Sub(now)-time.Duration(p.AtOnce)*p.Every)
}

// take is wait, and counts one time if there is no wait.
func (p *rateLimiter) take(key string, now time.Time) time.Duration {
	if wait := p.wait(key, now); wait > 0 {
		return wait
	}
	due, known := p.due[key]
	if !known && len(p.due) >= p.most {
		p.forget(now)
	}
	if due.Before(now) {
		due = now
	}
	p.due[key] = due.Add(p.Every)
	return 0
}

// forget makes room: keys that have their whole burst lose nothing; if there are none, some other keys get theirs.
func (p *rateLimiter) forget(now time.Time) {
	for key, due := range p.due {
		if !due.After(now) {
			delete(p.due, key)
		}
	}
	for key := range p.due {
		if len(p.due) < p.most {
			return
		}
		delete(p.due, key)
	}
}
