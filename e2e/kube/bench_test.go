//go:build kube

package kube

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

var (
	benchServices = flag.Int("services", 1000, "of the benchmark")
	benchPods     = flag.Int("pods", 10, "of each service of the benchmark")
	benchRuns     = flag.Int("runs", 5, "starts, and changes, that the benchmark measures")
)

// stock creates what fill applies, with less work for the API server.
func (h hand) stock(namespace string, services, pods int) {
	h.t.Helper()
	h.apply(namespaceOf(namespace))
	for i := range 100 {
		h.apply(fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata: {name: node-%d, labels: {topology.kubernetes.io/region: r1, topology.kubernetes.io/zone: z%d}}", i, i%3))
	}
	g, ctx := errgroup.WithContext(h.t.Context())
	g.SetLimit(12)
	for i := range services {
		for _, document := range made(namespace, i, pods, 0, true) {
			o := h.parse(document)
			g.Go(func() error {
				now, err := h.resource(o).Create(ctx, o, metav1.CreateOptions{})
				if err != nil || o.GetKind() != "Pod" {
					return err
				}
				now.Object["status"] = o.Object["status"]
				_, err = h.resource(o).UpdateStatus(ctx, now, metav1.UpdateOptions{})
				if apierrors.IsConflict(err) {
					return nil
				}
				return err
			})
		}
	}
	check(h.t, g.Wait())
}

// usage is what a process has used, from /proc.
type usage struct {
	cpu       time.Duration
	rss, peak int64 // bytes
}

func usageOf(t testing.TB, pid int) (u usage) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	check(t, err)
	var user, kernel int64
	_, rest, _ := strings.Cut(string(data), ") ")
	words := strings.Fields(rest)
	for i, to := range map[int]*int64{11: &user, 12: &kernel} {
		_, err := fmt.Sscan(words[i], to)
		check(t, err)
	}
	u.cpu = time.Duration(user+kernel) * 10 * time.Millisecond
	data, err = os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	check(t, err)
	for line := range strings.Lines(string(data)) {
		var kilobytes int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kilobytes); n == 1 {
			u.rss = kilobytes << 10
		}
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kilobytes); n == 1 {
			u.peak = kilobytes << 10
		}
	}
	return u
}

// timed is a discovery by way of a door, and how long it took to be ready.
func timed(b *testing.B, at *door, flags ...string) (*lab.Discovery, time.Duration) {
	b.Helper()
	l := lab.New(b.TempDir())
	files := filepath.Join(l.Dir, "none")
	check(b, os.Mkdir(files, 0o755))
	began := time.Now()
	d, err := l.Discovery(files, append([]string{"--registries", "Kubernetes", "--kubernetesConfig", "--kubeconfig", at.kubeconfig()}, flags...)...)
	check(b, err)
	took := time.Since(began)
	b.Cleanup(func() { d.Stop(stopLimit) })
	return d, took
}

// settledMemory waits until the resident memory no longer shrinks.
func settledMemory(b *testing.B, pid int) int64 {
	b.Helper()
	last, since := int64(1<<62), time.Now()
	check(b, lab.Eventually(2*time.Minute, func() error {
		now := usageOf(b, pid).rss
		if now < last-1<<20 {
			last, since = now, time.Now()
		}
		if time.Since(since) < 15*time.Second {
			return errors.New("it still gives back memory")
		}
		return nil
	}))
	return usageOf(b, pid).rss
}

// spreadOf writes the median and the range of values.
func spreadOf(unit string, values ...float64) string {
	slices.Sort(values)
	return fmt.Sprintf("%.4g [%.4g–%.4g] %s, n=%d", values[len(values)/2], values[0], values[len(values)-1], unit, len(values))
}

// BenchmarkKubernetes prints what discovery costs with many Pods of a real API server.
func BenchmarkKubernetes(b *testing.B) {
	c := startCluster(b)
	hand := c.hand()
	hand.apply(istioDefinitions(b))
	began := time.Now()
	hand.stock("shop", *benchServices, *benchPods)
	total := *benchServices * *benchPods
	b.Logf("stocked in %s", time.Since(began).Round(time.Second))
	say := func(what, value string) { fmt.Printf("| %-62s | %s |\n", what, value) }
	fmt.Printf("\n%d services, %d pods, 100 nodes\n\n| | |\n|---|---|\n", *benchServices, total)

	at := startDoor(b, c, c.config("admin"))
	empty, _ := timed(b, at, "--appNamespace", "nobody")
	base := settledMemory(b, empty.Pid)
	empty.Stop(stopLimit)

	var ready, cpu, peak []float64
	var d *lab.Discovery
	for range *benchRuns {
		if d != nil {
			d.Stop(stopLimit)
		}
		at.forget()
		var took time.Duration
		d, took = timed(b, at)
		u := usageOf(b, d.Pid)
		ready, cpu, peak = append(ready, took.Seconds()), append(cpu, u.cpu.Seconds()), append(peak, float64(u.peak>>20))
	}
	say("start → ready", spreadOf("s", ready...))
	say("processor time of discovery until then", spreadOf("s", cpu...))
	say("calls to the API server until then", at.String())
	say("most resident memory until then", spreadOf("MiB", peak...))
	rss := settledMemory(b, d.Pid)
	say("resident memory, settled, and with an empty namespace", fmt.Sprintf("%d and %d MiB", rss>>20, base>>20))
	say("of that for 1,000 pods with their share of services", fmt.Sprintf("%.2f MiB", float64(rss-base)/float64(total)*1000/(1<<20)))

	const proxies = 10
	f := startFleet(b, lab.New("").Bin, d.GRPC, proxies, true)
	f.ask("await", routes, "60s")
	var acked, spent []float64
	at.forget()
	for i := range *benchRuns {
		documents := made("shop", 7, *benchPods, i+1, true)
		slice := hand.parse(documents[len(documents)-1])
		f.ask("mark")
		before, from := usageOf(b, d.Pid).cpu, time.Now()
		_, err := hand.resource(slice).Apply(b.Context(), slice.GetName(), slice, metav1.ApplyOptions{FieldManager: "test", Force: true})
		check(b, err)
		a := f.ask("await", assignments, "60s")
		if a.Proxies != proxies {
			b.Fatalf("%d of %d proxies are told of a change", a.Proxies, proxies)
		}
		acked, spent = append(acked, time.Unix(0, a.Last).Sub(from).Seconds()*1000), append(spent, (usageOf(b, d.Pid).cpu-before).Seconds()*1000)
	}
	say(fmt.Sprintf("an endpoint changes at the API server → %d proxies answer", proxies), spreadOf("ms", acked...))
	say("processor time of discovery for it, in steps of 10 ms", spreadOf("ms", spent...))
	say("calls to the API server for these changes", at.String())

	// The watches end, and are too old when they begin again: everything is listed.
	c.stop()
	c.spec.Argv = append(c.spec.Argv, "--watch-cache=false")
	c.start()
	check(b, lab.Eventually(2*time.Minute, func() error { return allSynced(d) }))
	var back, work, pushes []float64
	for i := range *benchRuns {
		at.settled()
		at.forget()
		f.ask("mark")
		old := at.tooOld()
		before := usageOf(b, d.Pid).cpu
		at.shut()
		documents := made("shop", 9, *benchPods, i+1, true)
		slice := hand.parse(documents[len(documents)-1])
		_, err := hand.resource(slice).Apply(context.Background(), slice.GetName(), slice, metav1.ApplyOptions{FieldManager: "test", Force: true})
		check(b, err)
		hand.apply(namespaceOf(fmt.Sprintf("further-%d", i))) // a watch from the version before the last one is not too old
		c.compact()
		from := time.Now()
		at.open()
		a := f.ask("await", assignments, "60s")
		if a.Proxies != proxies || at.tooOld() == old {
			b.Fatalf("%d of %d proxies are told of a change, after %d answers of 410", a.Proxies, proxies, at.tooOld()-old)
		}
		at.settled()
		back, work = append(back, time.Unix(0, a.Last).Sub(from).Seconds()*1000), append(work, (usageOf(b, d.Pid).cpu-before).Seconds()*1000)
		pushes = append(pushes, float64(f.ask("report", assignments).Responses)/proxies)
	}
	say("all watches are too old (410), one endpoint has changed → all told", spreadOf("ms", back...))
	say("processor time of discovery for it", spreadOf("ms", work...))
	say("responses to each proxy", spreadOf("of endpoints", pushes...))
	say("calls to the API server for it", at.String())
	say("most resident memory since the start", fmt.Sprintf("%d MiB", usageOf(b, d.Pid).peak>>20))
	if answer, err := http.Get("http://" + d.HTTP + "/ready"); err != nil || answer.StatusCode != http.StatusOK {
		b.Errorf("in the end discovery is not ready: %v", err)
	} else {
		answer.Body.Close()
	}
}
