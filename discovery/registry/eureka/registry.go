package eureka

import (
	"time"
)

const (
	lease     = 90 * time.Second // Eureka's default
	mostLease = 5 * time.Minute  // that is waited for
)

// registry is what is known of one Eureka. Its methods are given the time.
type registry struct {
	records map[key]record
	lacking map[key]time.Time // since when the answers lack a record that was not removed
}

func newRegistry() *registry {
	return &registry{records: map[key]record{}, lacking: map[key]time.Time{}}
}

// whole takes an answer that holds everything. Instances that it lacks are kept until their lease is over: a server
// that has just started knows only those that have renewed since.
func (r *registry) whole(all []change, now time.Time) {
	has := make(map[key]bool, len(all))
	for _, c := range all {
		has[c.key] = true
		r.put(c.record)
	}
	for k := range r.records {
		if _, known := r.lacking[k]; !has[k] && !known {
			r.lacking[k] = now
		}
	}
}

// delta takes what changed lately. It may come again and again.
func (r *registry) delta(changes []change) {
	for _, c := range changes {
		if c.deleted {
			delete(r.records, c.key)
			delete(r.lacking, c.key)
		} else {
			r.put(c.record)
		}
	}
}

func (r *registry) put(c record) {
	delete(r.lacking, c.key)
	if before, known := r.records[c.key]; c.fault != "" && known {
		if c.hosts = before.hosts; before.fault == "" {
			c.hosts = before.allHosts()
		}
	}
	r.records[c.key] = c
}

// expire forgets what was lacking for as long as its lease.
func (r *registry) expire(now time.Time) {
	for k, since := range r.lacking {
		if now.Sub(since) >= r.records[k].lease() {
			delete(r.records, k)
			delete(r.lacking, k)
		}
	}
}

// hash returns the hash code of what the answers have.
func (r *registry) hash() string {
	statuses := map[string]int{}
	for k, c := range r.records {
		if _, lacks := r.lacking[k]; !lacks {
			statuses[c.status]++
		}
	}
	return hashOf(statuses)
}

// lease is how long Eureka itself waits for a sign of the instance.
func (c record) lease() time.Duration {
	seconds, err := c.instance.Lease.Seconds.Int64()
	if err != nil || seconds <= 0 {
		return lease
	}
	return min(time.Duration(min(seconds, 1<<20))*time.Second, mostLease)
}
