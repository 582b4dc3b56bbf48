package protocol

import (
	"time"
)

// Type is the state of one type of resource at a client.
type Type struct {
	Name       string `json:"name"` // cds, eds, lds, rds, sds, nds
	TypeURL    string `json:"type_url"`
	State      State  `json:"state"`
	Sent       string `json:"version_sent,omitempty"`
	Acked      string `json:"version_acked,omitempty"`
	Nonce      string `json:"nonce,omitempty"`
	Wildcard   bool   `json:"wildcard,omitempty"` // everything is subscribed
	Subscribed int    `json:"subscribed"`         // names
	Nack       *Nack  `json:"last_nack,omitempty"`
	// Refused lists the resources that the client was found to refuse. It has all others.
	Refused []Refused `json:"refused,omitempty"`
}

// Refused is a resource, or a virtual host of a route configuration, that a client refuses.
type Refused struct {
	Resource string    `json:"resource"`
	Host     string    `json:"virtual_host,omitempty"`
	Instead  string    `json:"instead"` // the state that the client has in its place
	Text     string    `json:"text"`    // the client's error text
	Since    time.Time `json:"since"`
}

// Nack is a response that a client refused.
type Nack struct {
	Text    string    `json:"text"` // Envoy's error text
	Version string    `json:"version"`
	Time    time.Time `json:"time"`
}

// State is how far a client is with the configuration that it should have.
type State string

const (
	StateSynced  State = "SYNCED"   // accepted, or it had the same content from an earlier stream
	StateStale   State = "STALE"    // sent and not answered yet, or newer content waits for an answer
	StateNacked  State = "NACKED"   // refused; the content before it is in use
	StateNotSent State = "NOT SENT" // never requested on this stream, or not its turn yet
)
