package eureka

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pilotlight/pilotlight/discovery/model"
)

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
