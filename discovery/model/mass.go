package model

import "fmt"

// fewest is how many must go at once to be a mass.
const fewest = 3

// Tally counts what goes at once of what there is: hosts, endpoints, objects of a kind, or clusters of a proxy.
type Tally struct {
	Lost int `json:"lost"`
	Had  int `json:"had"`
}

// Mass reports whether so many go that it may be an accident: more than half, and at least three. It is the rule for all that
// discovery removes, whatever caused it.
func (t Tally) Mass() bool { return t.Lost >= fewest && 2*t.Lost > t.Had }

// Of returns the tally as a text: "9 of 10 hosts".
func (t Tally) Of(what string) string { return fmt.Sprintf("%d of %d %s", t.Lost, t.Had, what) }
