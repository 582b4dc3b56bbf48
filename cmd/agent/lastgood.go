package main

import (
	"fmt"
	"time"

	"github.com/pilotlight/pilotlight/agent/proxy"
)

// lastGood is a value of --lastGood: on, off, or how old the last good configuration may be.
type lastGood string

func parseLastGood(text string) (lastGood, error) {
	if text == "on" || text == "off" {
		return lastGood(text), nil
	}
	if age, err := time.ParseDuration(text); err != nil || age < time.Minute {
		return "", fmt.Errorf("%q: want on, off, or an age of at least 1m", text)
	}
	return lastGood(text), nil
}

func (l lastGood) config() proxy.LastGood {
	age, _ := time.ParseDuration(string(l)) // 0 for on and off
	return proxy.LastGood{On: l == "on" || age > 0, MaxAge: age}
}

// String returns the text.
func (l lastGood) String() string { return string(l) }
