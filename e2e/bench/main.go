package main

import (
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

func main() {
	bin := flag.String("bin", "bin", "directory of agent, discovery and envoy")
	config := flag.String("config", "examples/bookinfo/config", "configuration that discovery serves")
	runs := flag.Int("n", 30, "starts of each")
	lives := flag.Int("lives", 5, "starts of these after which idleness, handovers, a freeze and a stop are measured too")
	flag.Parse()
	if err := bench(*bin, *config, *runs, *lives, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(bin, config string, runs, lives int, out io.Writer) error {
	dir, err := os.MkdirTemp("", "pilotlight-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin, err = filepath.Abs(bin)
	if err != nil {
		return err
	}
	b := &run{Lab: lab.Lab{Bin: bin, Envoy: filepath.Join(bin, "envoy"), Dir: dir}, lives: lives}
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, "floor"), "./e2e/bench/floor")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the floor: %w:\n%s", err, output)
	}
	if b.discovery, err = b.Discovery(config); err != nil {
		return err
	}
	defer b.discovery.Stop(stopLimit)
	if err := b.prepare(); err != nil {
		return err
	}
	for i := range runs {
		fmt.Fprintf(os.Stderr, "\rrun %d of %d ", i+1, runs)
		if err := b.both(i); err != nil {
			return err
		}
	}
	fmt.Fprintln(os.Stderr)
	return b.print(out)
}

// print writes one row a measure. The bars are what the project has set itself.
func (b *run) print(out io.Writer) error {
	size, err := os.Stat(filepath.Join(b.Bin, "agent"))
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "measure\tbare Envoy, or as named first: median [range]\tagent: median [range]\tratio\tbar\n")
	row := func(name, unit string, bare, ours []float64, bar string) {
		ratio := "–"
		if len(bare) > 0 {
			ratio = fmt.Sprintf("%.2f", median(ours)/median(bare))
		}
		fmt.Fprintf(t, "%s, %s\t%s\t%s\t%s\t%s\n", name, unit, describe(bare), describe(ours), ratio, bar)
	}
	row("exec → Envoy forked, of the least parent", "ms", nil, b.floorForked, "–")
	row("exec → Envoy forked", "ms", nil, b.forked, "≤ 3.5 ms")
	row("exec → Envoy ready, behind the least parent", "ms", b.bareReady, b.floorReady, "–")
	row("exec → Envoy ready", "ms", b.bareReady, b.ready, "–")
	row("exec → Envoy ready, less that of the bare one before", "ms", nil, b.later, "≤ 4 ms")
	row("Envoy killed → ready again, against a bare start", "ms", b.bareReady, b.again, "ratio ≤ 1.3")
	row("exec → Envoy ready, --lastGood off; on", "ms", b.direct.ready, b.relayed.ready, "–")
	row("exec → Envoy ready, on less off of the same turn", "ms", nil, b.through, "–")
	row("Envoy killed → ready again, --lastGood off; on", "ms", b.direct.again, b.relayed.again, "–")
	row("SIGTERM, idle → gone, --lastGood off; on", "ms", b.direct.stop, b.relayed.stop, "≤ 50 ms")
	row("memory of a sidecar's agent, resident, off; on", "MB", b.direct.rss, b.relayed.rss, "≤ 10 MB")
	row("CPU of a sidecar's agent, idle, a minute, off; on", "s", b.direct.cpu, b.relayed.cpu, "≤ 0.02 s")
	row("wake-ups of a sidecar's agent, idle, a second, off; on", "n", b.direct.wakeups, b.relayed.wakeups, "≤ 3")
	row("SIGTERM, idle → gone", "ms", b.bareStop, b.stop, "≤ 50 ms")
	row("agent killed → Envoy gone", "ms", nil, b.orphan, "≤ 50 ms")
	row("Envoy frozen → unready", "s", nil, b.whole.unready, "≤ 0.3 s")
	row("Envoy frozen → another serves", "s", nil, b.whole.thawed, "≤ 0.6 s")
	row("handover under load: change → newcomer serves", "s", nil, b.whole.handover, "≤ 1 s")
	row("handover under load: failed requests", "n", nil, b.whole.failed, "0")
	row("SIGTERM, requests in flight: last answer → gone", "ms", nil, b.whole.answers, "≤ 100 ms")
	row("agent's memory, resident", "MB", nil, b.rss, "≤ 10 MB")
	row("agent's memory, after 1,000 probes and 100 scrapes", "MB", nil, b.probed, "≤ 11.5 MB")
	row("agent's CPU, idle, a minute", "s", nil, b.whole.idleCPU, "≤ 0.02 s")
	row("agent's wake-ups, idle, a second", "n", nil, b.whole.wakeups, "≤ 3")
	fmt.Fprintf(t, "agent's binary, MB\t–\t%.1f\t–\t≤ 14 MB\n", float64(size.Size())/1e6)
	printImages(t)
	return t.Flush()
}

// printImages writes a row for each image that make image has left, and what is in that of the proxy.
func printImages(out io.Writer) {
	root, err := lab.Root()
	if err != nil {
		return
	}
	dir := filepath.Join(root, "run", "image")
	archives, _ := filepath.Glob(filepath.Join(dir, "*.tar"))
	for _, archive := range archives {
		name := strings.TrimSuffix(filepath.Base(archive), ".tar")
		bar := "≤ 12 MB"
		if strings.HasPrefix(name, "proxy-") {
			bar = "≤ 50 MB"
		}
		row := func(what string, bytes int64, bar string) {
			fmt.Fprintf(out, "image %s, %s, MB\t–\t%.1f\t–\t%s\n", name, what, float64(bytes)/1e6, bar)
		}
		row("compressed", size(archive), bar)
		if arch, ok := strings.CutPrefix(name, "proxy-"); ok {
			row("Envoy in it", size(filepath.Join(dir, "envoy-"+arch)), "–")
			row("all but Envoy and agent", size(filepath.Join(dir, "root-"+arch)), "≤ 9 MB")
		}
	}
	if len(archives) == 0 {
		fmt.Fprintf(out, "images\t–\tnone: make image\t–\t≤ 50 MB\n")
	}
}

// size is that of a file, or of a directory's files.
func size(path string) (total int64) {
	_ = filepath.WalkDir(path, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil
		}
		if info, err := entry.Info(); err == nil && info.Mode()&os.ModeSymlink == 0 {
			total += info.Size()
		}
		return nil
	})
	return total
}
