package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/pilotlight/pilotlight/discovery/ads"
)

// limitFlags are the flags that say what a client may cost.
type limitFlags struct {
	send, age, shutdown durationFlag
	maxRequest          int
	streams             uint32
	perSecond           float64
}

func newLimitFlags() limitFlags {
	l := ads.DefaultLimits()
	return limitFlags{
		send: duration(l.SendTimeout), age: duration(l.MaxConnectionAge), shutdown: duration(l.Shutdown),
		maxRequest: l.MaxRequest, streams: l.StreamsPerConnection, perSecond: l.StreamsPerSecond,
	}
}

func (l *limitFlags) add(flags *pflag.FlagSet) {
	flags.Var(&l.send, "sendTimeout", "cut off a proxy that leaves a response without an answer for so long")
	flags.Var(&l.age, "keepaliveMaxServerConnectionAge", "ask proxies to connect anew after this time, give or take a tenth; 0s for never")
	flags.Var(&l.shutdown, "shutdownDuration", "how long a stop may take, in which proxies are sent elsewhere one by one")
	flags.IntVar(&l.maxRequest, "maxRequestBytes", l.maxRequest, "largest request of a proxy")
	flags.Uint32Var(&l.streams, "maxStreamsPerConnection", l.streams, "streams that a proxy may have on a connection")
	flags.Float64Var(&l.perSecond, "maxNewStreamsPerSecond", l.perSecond, "of all proxies; those beyond are told to come again; 0 for any number")
}

func (l *limitFlags) check() error {
	var faults []error
	faults = append(faults, l.send.check("--sendTimeout"), l.age.check("--keepaliveMaxServerConnectionAge"),
		l.shutdown.check("--shutdownDuration"))
	if l.send.err == nil && l.send.value == 0 {
		faults = append(faults, errors.New("--sendTimeout is 0s, want more"))
	}
	if l.maxRequest <= 0 {
		faults = append(faults, fmt.Errorf("--maxRequestBytes is %d, want at least 1", l.maxRequest))
	}
	if l.perSecond < 0 {
		faults = append(faults, fmt.Errorf("--maxNewStreamsPerSecond is %g, want 0 or more", l.perSecond))
	}
	return errors.Join(faults...)
}

func (l *limitFlags) limits() ads.Limits {
	return ads.Limits{
		MaxRequest: l.maxRequest, StreamsPerConnection: l.streams, StreamsPerSecond: l.perSecond,
		SendTimeout: l.send.value, MaxConnectionAge: l.age.value, Shutdown: l.shutdown.value,
	}
}
