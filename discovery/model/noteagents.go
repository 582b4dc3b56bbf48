package model

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Agent is what the agent of a proxy says of itself and of its pod, by the metadata of the proxy's stream.
type Agent struct {
	Version  string // "v0.2.0"; "" if it does not say, as Istio's own agent, or one whose Envoy connects without its relay
	Bypassed string // a port of the program, and a client that reaches it past Envoy: "8080 10.0.0.7"; "" for none that was seen
}

// oldAgent returns what is said about an agent that is older than discovery; "" for one that is not, and where one of the two is no
// release: a build of a developer may have anything in it.
func oldAgent(version, release string) string {
	is, known := releaseOf(version)
	want, also := releaseOf(release)
	if !known || !also || !is.before(want) {
		return ""
	}
	return fmt.Sprintf("its agent is %s, and discovery %s: it does not do what came since; want the agent of that release, by agent upgrade on its host or a new image of its Pod: "+
		"docs/upgrading.md", version, release)
}

// semver is a version of a release.
type semver [3]int

func (v semver) before(w semver) bool {
	for i := range v {
		if v[i] != w[i] {
			return v[i] < w[i]
		}
	}
	return false
}

// releaseOf reads a version such as "v0.2.0" or "0.2.0"; one of less numbers is the first of these. A pre-release, and a pseudo-version of Go, is
// no release.
func releaseOf(text string) (v semver, is bool) {
	numbers := strings.Split(strings.TrimPrefix(text, "v"), ".")
	if len(numbers) < 2 || len(numbers) > len(v) {
		return v, false
	}
	for i, number := range numbers {
		n, err := strconv.ParseUint(number, 10, 31)
		if err != nil {
			return v, false
		}
		v[i] = int(n)
	}
	return v, true
}

// bypassed returns what is said about a proxy whose program is reached past its Envoy; "" if none was seen to be.
func bypassed(w Proxy) string {
	if w.Agent.Bypassed == "" || w.Gateway || w.Binds || w.Proxyless {
		return ""
	}
	how := "its program is reached directly"
	port, client, _ := strings.Cut(w.Agent.Bypassed, " ")
	number, err := strconv.ParseUint(port, 10, 16)
	if from, err2 := netip.ParseAddr(client); err == nil && err2 == nil {
		how = fmt.Sprintf("%s reaches port %d of its program directly", from.WithZone(""), number)
	}
	return "its traffic is said to be intercepted, and " + how + ", as its agent sees: no policy and no mutual TLS applies to that; want the redirection there, by pod-init or systemctl restart " +
		"pilotlight-redirect, or for a port that is left out on purpose its number in the annotation traffic.sidecar.istio.io/excludeInboundPorts, or INTERCEPTION_MODE=NONE"
}
