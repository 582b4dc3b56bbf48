package enroll

import (
	"errors"
	"time"
)

const (
	firstAway = 500 * time.Millisecond
	longAway  = 5 * time.Second

	firstWait  = time.Second
	longWait   = time.Minute
	longestAsk = 5 * time.Minute // that an authority may have us wait
)

// due returns when a certificate is renewed: at half of its life, and up to a tenth of the life earlier or later, by random of 0 to
// 1. So those that were made at one time are not renewed at one time.
func due(from, to time.Time, random float64) time.Time {
	life := to.Sub(from)
	return from.Add(life/2 + time.Duration((random*2-1)*float64(life)/10))
}

// nextLook returns how long to wait before the roots are asked for: an eighth of the life of a certificate, five minutes at most, and up to a half
// less or more.
func nextLook(life time.Duration, random float64) time.Duration {
	wait := min(life/8, 5*time.Minute)
	return max(wait/2+time.Duration(random*float64(wait)), time.Second)
}

// again returns how long to wait after a number of failures, at least one, of which the last is err. While the authority cannot be reached it costs
// it nothing to be asked: half a second, doubled each time up to five seconds, and up to a half less, at least half a second. After any other
// failure it is backOff.
func again(failures int, err error, random float64) time.Duration {
	var u *unsigned
	var a *away
	switch {
	case errors.As(err, &u):
		return backOff(failures, u.after, random)
	case !errors.As(err, &a):
		return backOff(failures, 0, random)
	}
	wait := longAway
	if failures < 5 {
		wait = firstAway << (failures - 1)
	}
	return max(wait-time.Duration(random*float64(wait)/2), firstAway)
}

// backOff returns how long to wait after a number of failures, at least one: a second, doubled each time up to a minute, and up to a
// fifth less. after is what the authority asks for, zero for nothing.
func backOff(failures int, after time.Duration, random float64) time.Duration {
	wait := longWait
	if failures < 7 {
		wait = min(longWait, firstWait<<(failures-1))
	}
	wait -= time.Duration(random * float64(wait) / 5)
	return max(wait, min(after, longestAsk))
}
