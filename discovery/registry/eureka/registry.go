package eureka

import (
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

const (
	lease     = 90 * time.Second // Eureka's default
	mostLease = 5 * time.Minute  // the longest lease that is respected
)

// registry holds the records of one Eureka. It reads no clock: its methods take the time.
type registry struct {
	grant   model.Grant
	records map[key]record
	lacking map[key]time.Time // the time since which answers lack a record that was not deleted
}

func newRegistry(grant model.Grant) *registry {
	return &registry{grant: grant, records: map[key]record{}, lacking: map[key]time.Time{}}
}

// whole applies a complete answer. Instances that it lacks are kept until their lease is over: a server that has just
// started has only those that have renewed since.
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

// delta applies the recent changes. The same changes may arrive several times.
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

// expire removes instances that were lacking for as long as their lease, and returns their hosts.
func (r *registry) expire(now time.Time) (lapsed map[string]bool) {
	lapsed = map[string]bool{}
	for k, since := range r.lacking {
		if now.Sub(since) >= r.records[k].lease() {
			for _, host := range r.records[k].allHosts() {
				lapsed[host] = true
			}
			delete(r.records, k)
			delete(r.lacking, k)
		}
	}
	return lapsed
}

// hash returns the hash code of the records that the answers have.
func (r *registry) hash() string {
	statuses := map[string]int{}
	for k, c := range r.records {
		if _, lacks := r.lacking[k]; !lacks {
			statuses[c.status]++
		}
	}
	return hashOf(statuses)
}

// lease returns how long Eureka itself waits for a renewal of the instance, at most mostLease.
func (c record) lease() time.Duration {
	seconds, err := c.instance.Lease.Seconds.Int64()
	if err != nil || seconds <= 0 {
		return lease
	}
	return min(time.Duration(min(seconds, 1<<20))*time.Second, mostLease)
}
