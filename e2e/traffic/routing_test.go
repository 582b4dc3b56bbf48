package traffic

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A request through the productpage's sidecar reaches details, reviews and ratings through theirs: every Envoy on
// the way counts it, on the way out and on the way in.
func TestARequestPassesEverySidecar(t *testing.T) {
	t.Parallel()
	m := lab.StartMesh(t)
	m.Weights(0, 100) // ratings are asked by reviews v2 only
	page := "http://" + m.Address(11) + ":9080/api/v1/products/0"
	m.Check(lab.Eventually(lab.StopLimit, func() error {
		body, err := lab.Get(page)
		if err == nil && !strings.Contains(body, `"v2"`) {
			err = fmt.Errorf("no reviews v2 in %s", body)
		}
		return err
	}))
	inbound := map[string]string{"productpage": "", "details": "", "reviews-v2": "", "ratings": ""}
	outbound := map[string]string{
		"productpage": `^cluster\.outbound\|9080\|.*\|(details|reviews)\.default\.svc\.cluster\.local\.upstream_rq_total$`,
		"reviews-v2":  `^cluster\.outbound\|9080\|.*\|ratings\.default\.svc\.cluster\.local\.upstream_rq_total$`,
	}
	count := func() map[string]int64 {
		out := map[string]int64{}
		for name := range inbound {
			out[name+" in"] = m.Stat(name, `^cluster\.inbound\|9080\|\|\.upstream_rq_total$`)
		}
		for name, filter := range outbound {
			out[name+" out"] = m.Stat(name, filter)
		}
		return out
	}
	before := count()
	const requests = 10
	for range requests {
		if _, err := lab.Get(page); err != nil {
			t.Fatal(err)
		}
	}
	after := count()
	want := map[string]int64{
		"productpage in": requests, "productpage out": 2 * requests, "details in": requests,
		"reviews-v2 in": requests, "reviews-v2 out": requests, "ratings in": requests,
	}
	for name, n := range want {
		if got := after[name] - before[name]; got != n {
			t.Errorf("%s: %d requests, want %d", name, got, n)
		}
	}
}

// Editing the VirtualService moves traffic without a restart, in the proportion that it says.
func TestAWeightMovesTraffic(t *testing.T) {
	t.Parallel()
	m := lab.StartMesh(t, "productpage", "reviews-v1", "reviews-v2", "ratings")
	envoy, err := m.Sidecars["productpage"].Envoy()
	m.Check(err)
	v2 := func() int64 { return m.Stat("reviews-v2", `^cluster\.inbound\|9080\|\|\.upstream_rq_total$`) }
	ask := func() { m.Get("productpage", "http://reviews:9080/reviews/0") }

	var moved []time.Duration
	for range 5 {
		began, before := time.Now(), v2()
		m.Weights(80, 20)
		m.Check(lab.Eventually(lab.StopLimit, func() error {
			ask()
			if v2() == before {
				return fmt.Errorf("reviews v2 gets no request")
			}
			return nil
		}))
		moved = append(moved, time.Since(began))
		m.Weights(100, 0)
		m.Check(lab.Eventually(lab.StopLimit, func() error { // ten in a row is beyond chance
			before := v2()
			for range 100 {
				ask()
			}
			if n := v2() - before; n > 0 {
				return fmt.Errorf("reviews v2 gets %d of 100 requests at weight 0", n)
			}
			return nil
		}))
	}
	t.Logf("an edit moved traffic after %v", moved)

	m.Weights(80, 20)
	m.Check(lab.Eventually(lab.StopLimit, func() error {
		before := v2()
		ask()
		if v2() == before {
			return fmt.Errorf("reviews v2 gets no request")
		}
		return nil
	}))
	const requests, share = 400, 0.2
	before := v2()
	for range requests {
		ask()
	}
	got, want := float64(v2()-before), requests*share
	// Five standard deviations of the binomial distribution: wrong once in two million runs.
	if bound := 5 * math.Sqrt(requests*share*(1-share)); math.Abs(got-want) > bound {
		t.Errorf("reviews v2 got %v of %d requests, want %v ± %.0f", got, requests, want, bound)
	}
	t.Logf("reviews v2 got %v of %d requests", got, requests)

	before = v2()
	for range 20 {
		m.Get("productpage", "http://reviews:9080/reviews/0", "end-user", "jason")
	}
	if n := v2() - before; n != 20 {
		t.Errorf("reviews v2 got %d of jason's 20 requests, want all", n)
	}
	if now, err := m.Sidecars["productpage"].Envoy(); err != nil || now != envoy {
		t.Errorf("Envoy was pid %d, is %d (%v): want no restart", envoy, now, err)
	}
}

// An endpoint that is added gets traffic, one that is removed loses it, and no request fails.
func TestAnEndpointComesAndGoes(t *testing.T) {
	t.Parallel()
	m := lab.StartMesh(t, "productpage", "details")
	m.Start("details-2", "details", "v1", 16)
	m.Check(m.Sidecars["details-2"].AwaitReady())
	second := func() int64 { return m.Stat("details-2", `^cluster\.inbound\|9080\|\|\.upstream_rq_total$`) }

	load := lab.StartLoad(m.Proxies["productpage"], "http://details:9080/details/0", 4, 2)
	endpoint := fmt.Sprintf("  - address: %s\n", m.Address(12))
	another := fmt.Sprintf("  - address: %s\n    labels: {app: details, version: v1}\n", m.Address(16))
	for range 3 {
		before := second()
		m.Edit("services.yaml", endpoint, another+endpoint)
		err := lab.Eventually(lab.StopLimit, func() error {
			if second() < before+20 {
				return fmt.Errorf("the added endpoint got %d requests", second()-before)
			}
			return nil
		})
		if err == nil {
			m.Edit("services.yaml", another, "")
			err = lab.Eventually(lab.StopLimit, func() error {
				before, sent := second(), load.Requests()
				m.Check(lab.Eventually(lab.StopLimit, func() error {
					if load.Requests() < sent+100 {
						return fmt.Errorf("only %d requests", load.Requests()-sent)
					}
					return nil
				}))
				if n := second() - before; n > 0 {
					return fmt.Errorf("the removed endpoint got %d requests", n)
				}
				return nil
			})
		}
		if err != nil {
			load.Stop()
			t.Fatal(err)
		}
	}
	lab.Unharmed(t, load)
}
