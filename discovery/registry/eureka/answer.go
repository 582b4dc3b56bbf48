package eureka

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// answer is the answer of /apps and /apps/delta.
type answer struct {
	Applications *applications `json:"applications"`
}

type applications struct {
	Hash        text              `json:"apps__hashcode"` // "DOWN_1_UP_2_": how many instances have which status
	Application many[application] `json:"application"`
}

type application struct {
	Name     text                  `json:"name"`
	Instance many[json.RawMessage] `json:"instance"` // each is read by itself: a malformed one does not affect the others
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
}

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
	case data[0] == '"':
		return json.Unmarshal(data, (*string)(t))
	case data[0] == '{' || data[0] == '[':
		return fmt.Errorf("found %.40q, want a text", data)
	}
	*t = text(data)
	return nil
}

// many is a list; some encoders write a list of one element without brackets.
type many[T any] []T

// UnmarshalJSON reads both forms.
func (m *many[T]) UnmarshalJSON(data []byte) error {
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	if data[0] == '[' {
		return json.Unmarshal(data, (*[]T)(m))
	}
	*m = make([]T, 1)
	return json.Unmarshal(data, &(*m)[0])
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

// changes reads all instances of an answer.
func (a *applications) changes() (out []change) {
	for _, app := range a.Application {
		for _, raw := range app.Instance {
			var c change
			var h head
			err := json.Unmarshal(raw, &c.instance)
			if err != nil {
				c.fault = err.Error()
				_ = json.Unmarshal(raw, &h) // fills the fields that can be read
				c.instance = instance{head: h}
			}
			id := c.instance.ID
			if id == "" {
				id = c.instance.Host
			}
			if id == "" && c.fault == "" {
				c.fault = "it has neither an instanceId nor a hostName"
			}
			c.key = key{strings.ToUpper(string(app.Name)), string(id)}
			c.status, c.deleted = strings.ToUpper(string(c.instance.Status)), c.instance.Action == "DELETED"
			out = append(out, c)
		}
	}
	return out
}

// hashOf returns the hash code of instances: how many have each status.
func hashOf(statuses map[string]int) string {
	var out strings.Builder
	for _, status := range slices.Sorted(maps.Keys(statuses)) {
		fmt.Fprintf(&out, "%s_%d_", status, statuses[status])
	}
	return out.String()
}
