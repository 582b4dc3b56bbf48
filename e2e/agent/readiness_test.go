package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// told is what /healthz/ready?verbose says, with its status code.
type told struct {
	code                     int
	Ready, Stopping, Drained bool
	Degraded                 string
	Conditions               []condition
}

type condition struct {
	Type   string
	Status bool
	Reason string
	Since  time.Time
}

func readiness(address string) (r told, err error) {
	response, err := fresh.Get("http://" + address + "/healthz/ready?verbose")
	if err != nil {
		return r, err
	}
	defer response.Body.Close()
	r.code = response.StatusCode
	return r, json.NewDecoder(response.Body).Decode(&r)
}

// missing names the conditions that do not hold.
func (r told) missing() string {
	var out []string
	for _, c := range r.Conditions {
		if !c.Status {
			out = append(out, c.Type+": "+c.Reason)
		}
	}
	return strings.Join(out, "; ")
}

// pupil is an agent whose Envoy a script configures.
type pupil struct {
	*lab.Sidecar
	*script
	status       string   // host:port
	inbound      []string // host:port of listeners
	good, upside string   // a good cluster; where its endpoint is
}

func startPupil(t *testing.T, s *script, flags ...string) *pupil {
	t.Helper()
	program := startProgram(t)
	port, err := lab.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	p := &pupil{script: s, status: fmt.Sprintf("127.0.0.1:%d", port), upside: program.Listener.Addr().String()}
	p.good = staticCluster("good", p.upside)
	addresses := lab.Addresses()
	for i := range 3 {
		port, err := lab.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		p.inbound = append(p.inbound, fmt.Sprintf("%s%d:%d", addresses, i+1, port))
	}
	p.Sidecar, err = lab.New(lab.ShortDir(t)).Sidecar(lab.Workload{
		Name: "pupil", App: "pupil", IP: "127.0.0.1", Discovery: s.address,
		Flags: append([]string{"--statusPort", fmt.Sprint(port)}, flags...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if code := p.Stop(lab.StopLimit); code != 0 || t.Failed() {
			t.Logf("exit status %d:\n%s", code, tail(p.Log(), 40))
		}
	})
	return p
}

// await waits until the agent says so.
func (p *pupil) await(what string, is func(told) bool) {
	p.t.Helper()
	err := lab.Eventually(30*time.Second, func() error {
		r, err := readiness(p.status)
		if err == nil && !is(r) {
			err = fmt.Errorf("status %d, missing %q, degraded %q; want %s", r.code, r.missing(), r.Degraded, what)
		}
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// serves checks that traffic comes through a listener.
func (p *pupil) serves(address string) {
	p.t.Helper()
	if err := lab.Eventually(lab.StopLimit, func() error { _, err := lab.Get("http://" + address); return err }); err != nil {
		p.t.Error(err)
	}
}

func healthy(r told) bool { return r.code == 200 && r.Ready && r.Degraded == "" }

// degraded is ready, and names these.
func degraded(texts ...string) func(told) bool {
	return func(r told) bool {
		for _, text := range texts {
			if !strings.Contains(r.Degraded, text) {
				return false
			}
		}
		return r.code == 200 && r.Ready && r.missing() == ""
	}
}

// unready lacks exactly what these say.
func unready(text string) func(told) bool {
	return func(r told) bool {
		return r.code == 503 && !r.Ready && r.Degraded == "" && strings.Contains(r.missing(), text) && !strings.Contains(r.missing(), "; ")
	}
}

// The reaction of a real Envoy to bad resources, and the agent's reports of it.
func TestRejectedConfiguration(t *testing.T) {
	t.Parallel()
	const noEDS, noChains = "bad: cannot create an EDS cluster without an EDS config", "no filter chains specified"
	for name, test := range map[string]func(p *pupil){
		"CDS, one bad beside a good one, then mended": func(p *pupil) {
			p.clusters(p.good, badCluster("bad"))
			p.listeners(tcpListener("l", p.inbound[0], "good"))
			p.await("degraded", degraded("CDS: Envoy rejected 1 answers", noEDS))
			p.serves(p.inbound[0])
			p.clusters(p.good)
			p.await("healthy", healthy)
		},
		"LDS, one bad beside a good one, then mended": func(p *pupil) {
			p.clusters(p.good)
			p.listeners(badListener("bad", p.inbound[1]), tcpListener("l", p.inbound[0], "good"))
			p.await("degraded", degraded("LDS: Envoy rejected 1 answers", "bad: error adding listener", noChains))
			p.serves(p.inbound[0])
			p.listeners(tcpListener("l", p.inbound[0], "good"))
			p.await("healthy", healthy)
		},
		"all bad at first: nothing listens": func(p *pupil) {
			p.clusters(badCluster("bad"))
			p.listeners(badListener("bad", p.inbound[0]))
			p.await("unready", unready("ListenersBound: Error adding/updating listener(s) bad: error adding listener"))
			p.listeners(tcpListener("l", p.inbound[0], "good"))
			p.await("ready, though CDS is not mended", degraded("CDS: Envoy rejected 1 answers", noEDS))
			p.clusters(p.good)
			p.await("healthy", healthy)
			p.serves(p.inbound[0])
		},
		"CDS bad at first, LDS good: its listeners are there": func(p *pupil) {
			p.clusters(badCluster("bad"))
			p.listeners(tcpListener("l", p.inbound[0], "good"))
			p.await("degraded", degraded("CDS: Envoy rejected 1 answers", noEDS))
		},
		"later bad: what was good, serves on": func(p *pupil) {
			p.clusters(p.good)
			p.listeners(tcpListener("l", p.inbound[0], "good"))
			p.await("healthy", healthy)
			p.listeners(badListener("l", p.inbound[0]))
			p.await("degraded", degraded("LDS: Envoy rejected 1 answers", noChains))
			p.serves(p.inbound[0])
			p.clusters(badCluster("good"))
			p.await("degraded", degraded("CDS: Envoy rejected 1 answers", "LDS: Envoy rejected 1 answers"))
			p.serves(p.inbound[0])
		},
		"RDS bad at first, then mended": func(p *pupil) {
			p.clusters(p.good)
			p.listeners(httpListener("l", p.inbound[0], "r"), tcpListener("t", p.inbound[1], "good"))
			p.routes(routesTo("r", "good", 2))
			p.await("degraded", degraded("RDS: Envoy rejected an answer at", "Only a single wildcard domain is permitted in route r"))
			p.routes(routesTo("r", "good", 1))
			p.await("healthy", healthy)
			p.serves(p.inbound[0])
		},
		"a busy port beside a free one": func(p *pupil) {
			busy := p.listen()
			p.clusters(p.good)
			p.listeners(tcpListener("busy", busy, "good"), tcpListener("l", p.inbound[0], "good"))
			p.await("degraded", degraded("cannot bind '"+busy+"': Address already in use"))
			p.serves(p.inbound[0])
		},
		"a busy port alone": func(p *pupil) {
			busy := p.listen()
			p.clusters(p.good)
			p.listeners(tcpListener("busy", busy, "good"))
			p.await("unready", unready("ListenersBound: Envoy cannot listen at "+busy+": process "))
		},
		"no listeners are sent, which is no fault": func(p *pupil) {
			p.clusters(p.good)
			p.listeners()
			p.await("healthy", healthy)
		},
		"all listeners are withdrawn": func(p *pupil) {
			p.clusters(p.good)
			p.listeners(tcpListener("l", p.inbound[0], "good"))
			p.await("healthy", healthy)
			p.listeners()
			p.await("no listeners", func(r told) bool {
				return healthy(r) && slices.ContainsFunc(r.Conditions, func(c condition) bool { return c.Reason == "0 listeners" })
			})
		},
		"CDS is not answered": func(p *pupil) {
			p.await("unready", func(r told) bool {
				// After a second it is said that discovery is connected, and has not answered.
				missing := strings.Replace(r.missing(), "not yet: discovery is connected, and has not answered;", "not yet;", 1)
				return r.code == 503 && strings.Contains(missing, "AdminAnswers: /ready says PRE_INITIALIZING; CDSReceived: not yet; LDSReceived: not yet")
			})
			p.clusters(p.good)
			p.await("unready", func(r told) bool {
				return r.code == 503 && strings.Contains(r.missing(), "AdminAnswers: /ready says INITIALIZING")
			})
			p.listeners(tcpListener("l", p.inbound[0], "good"))
			p.await("healthy", healthy)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(startPupil(t, startScript(t), "--xdsVariant", "sotw"))
		})
	}
}

// Under the delta protocol an accepted answer says nothing of what was rejected before: Envoy is asked for it.
func TestRejectedDelta(t *testing.T) {
	t.Parallel()
	p := startPupil(t, startScript(t), "--xdsVariant", "delta")
	other := staticCluster("other", p.upside)
	p.clusters(p.good, badCluster("bad|80"))
	p.listeners(tcpListener("l", p.inbound[0], "good"), badListener("bad", p.inbound[1]))
	p.await("degraded", degraded("CDS: Envoy rejected 1 answers", "bad|80: cannot create", "LDS: Envoy rejected 1 answers", "bad: error adding"))
	p.serves(p.inbound[0])
	p.clusters(p.good, badCluster("bad|80"), other)
	p.await("degraded still", degraded("CDS: Envoy rejected 1 answers", "(others were accepted since)"))
	p.clusters(p.good, staticCluster("bad|80", p.upside), other)
	p.await("degraded by LDS only", func(r told) bool { return degraded("LDS: Envoy")(r) && !strings.Contains(r.Degraded, "CDS") })
	p.listeners(tcpListener("l", p.inbound[0], "good"), tcpListener("bad", p.inbound[1], "good"))
	p.clusters(p.good, staticCluster("bad|80", p.upside), badCluster("other"))
	p.await("degraded by a change", func(r told) bool {
		return degraded("CDS: Envoy rejected 2 answers", "other: cannot create")(r) && !strings.Contains(r.Degraded, "LDS")
	})
	p.serves(p.inbound[1])
	p.clusters(p.good, staticCluster("bad|80", p.upside))
	p.await("healthy, for the change is withdrawn with its cluster", healthy)
}

// A newcomer would get nothing but bad listeners, where its parent still has good ones. It does not take over, until discovery mends them.
func TestHandoverIntoBadListeners(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"side-by-side", "hot"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			override := filepath.Join(t.TempDir(), "override.json")
			write := func(text string) {
				if err := os.WriteFile(override+"~", []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(override+"~", override); err != nil {
					t.Fatal(err)
				}
			}
			write(`{}`)
			p := startPupil(t, startScript(t), "--xdsVariant", "sotw", "--handover", way, "--handoverTimeout", "10s",
				"--drainDuration", "1s", "--parentShutdownDuration", "2s", "--bootstrapOverride", override)
			p.clusters(p.good)
			p.listeners(tcpListener("l", p.inbound[0], "good"))
			p.await("healthy", healthy)
			p.listeners(badListener("l", p.inbound[0]))
			p.await("degraded", degraded("LDS: Envoy rejected 1 answers"))
			write(`{"stats_flush_interval": "7s"}`)
			p.must(p.AwaitLog("configuration refused, the last good one stays"))
			p.await("degraded", degraded("LDS: Envoy rejected 1 answers"))
			p.serves(p.inbound[0])
			p.listeners(tcpListener("l", p.inbound[0], "good"))
			p.must(p.AwaitLog("handed over to a newcomer"))
			p.await("healthy", healthy)
			p.serves(p.inbound[0])
		})
	}
}

func (p *pupil) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// listen takes a port that Envoy then cannot have.
func (p *pupil) listen() string {
	p.t.Helper()
	host, _, _ := strings.Cut(p.inbound[2], ":")
	listener, err := net.Listen("tcp", host+":0")
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

// post returns the status and text of an answer.
func post(url string) (int, string, error) {
	response, err := fresh.Post(url, "", nil)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}
