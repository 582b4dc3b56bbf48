package eureka

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

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

// applications are what is kept of an answer of /apps or /apps/delta.
type applications struct {
	hash    text // "DOWN_1_UP_2_": how many instances have which status
	changes []change
}

// instance is one process of an application. Fields that are not read here are left out.
type instance struct {
	head
	IPAddr     text `json:"ipAddr"`
	VIP        text `json:"vipAddress"` // names by which clients find it, separated by commas
	SecureVIP  text `json:"secureVipAddress"`
	Port       port `json:"port"`
	SecurePort port `json:"securePort"`
	DataCenter struct {
		Metadata map[string]text `json:"metadata"`
	} `json:"dataCenterInfo"`
	Metadata map[string]text `json:"metadata"`
	Lease    struct {
		Seconds json.Number `json:"durationInSecs"`
	} `json:"leaseInfo"`

	labels  map[string]string // of the metadata, within bounds; Metadata keeps further settings
	omitted int               // entries of the metadata that are no label
	zone    text              // of Amazon
}

// fields are the names that instance has.
var fields = []string{
	"instanceId", "hostName", "status", "actionType", "ipAddr", "vipAddress", "secureVipAddress", "port", "securePort", "dataCenterInfo", "metadata",
	"leaseInfo",
}

// bound leaves out of an instance what nothing reads.
func (i *instance) bound() {
	i.labels, i.omitted = model.BoundLabels(labelsOf(i.Metadata))
	var settings map[string]text
	for _, k := range []string{metaProtocol, metaIstio, metaPort, metaWeight, metaRegion, metaZone, metaSubZone} {
		if _, is := i.labels[k]; !is && i.Metadata[k] != "" {
			if settings == nil {
				settings = map[string]text{}
			}
			settings[k] = i.Metadata[k]
		}
	}
	i.Metadata, i.zone = settings, i.DataCenter.Metadata[metaAmazon]
	i.DataCenter.Metadata = nil
}

// meta returns an entry of the metadata.
func (i *instance) meta(key string) string { return cmp.Or(i.labels[key], string(i.Metadata[key])) }

// head holds the fields that are read even if the rest of an instance is malformed.
type head struct {
	ID     text `json:"instanceId"`
	Host   text `json:"hostName"`
	Status text `json:"status"`
	Action text `json:"actionType"` // in a delta: ADDED, MODIFIED, DELETED
}

type port struct {
	Number  text `json:"$"`
	Enabled text `json:"@enabled"`
}

// text is a string, a number or a boolean as text: Eureka's encoders differ in the type that they write. It is "" for
// null.
type text string

// UnmarshalJSON refuses lists and objects.
func (t *text) UnmarshalJSON(data []byte) error {
	switch {
	case bytes.Equal(data, []byte("null")):
		return nil
	case data[0] == '"' && bytes.IndexByte(data, '\\') < 0 && utf8.Valid(data):
		*t = text(data[1 : len(data)-1])
	case data[0] == '"':
		return json.Unmarshal(data, (*string)(t))
	case data[0] == '{' || data[0] == '[':
		return fmt.Errorf("found %.40q, want a text", data)
	default:
		*t = text(data)
	}
	return nil
}

// key identifies an instance.
type key struct{ app, id string }

// record is an instance in the form of the last answer that had it.
type record struct {
	key
	status   string
	instance instance
	fault    string   // why the instance could not be read; "" if it could
	hosts    []string // of its form before, if it could not be read
}

// change is a record and, in a delta, whether it was deleted.
type change struct {
	record
	deleted bool
}

// hashOf returns the hash code of instances: how many have each status.
func hashOf(statuses map[string]int) string {
	var out strings.Builder
	for _, status := range slices.Sorted(maps.Keys(statuses)) {
		fmt.Fprintf(&out, "%s_%d_", status, statuses[status])
	}
	return out.String()
}
