package health

import "fmt"

// Link is the state of the connection to discovery of an Envoy that waits for its first configuration, counted since
// its start.
type Link struct {
	Hosts           int64 // known addresses of discovery
	Connected       int64 // connections now
	ConnectFailures int64
	WrongIdentity   int64  // certificates with another subject alternative name than is wanted
	Unverified      int64  // certificates that are expired, or not issued under one of the roots
	Ended           int64  // ADS streams that have ended
	Why             string // the agent's own diagnosis, with the remedy; empty for none
}

// why states the problem, for a person to read.
func (l Link) why() string {
	switch {
	case l.Why != "" && l.Connected == 0:
		return "not yet: " + l.Why
	case l.WrongIdentity > 0:
		return fmt.Sprintf("not yet: discovery shows a certificate of another identity (%d times)", l.WrongIdentity)
	case l.Unverified > 0:
		return fmt.Sprintf("not yet: discovery's certificate is expired, or no root vouches for it (%d times)", l.Unverified)
	case l.Hosts == 0:
		return "not yet: discovery's name has no address"
	case l.Connected == 0 && l.ConnectFailures > 0:
		return fmt.Sprintf("not yet: %d connections to discovery failed", l.ConnectFailures)
	case l.Connected > 0 && l.Ended > 0:
		return fmt.Sprintf("not yet: discovery has ended %d streams without an answer", l.Ended)
	case l.Connected > 0:
		return "not yet: discovery is connected, and has not answered"
	}
	return "not yet"
}
