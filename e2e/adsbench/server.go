package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/heap"
)

// say prints one answer as a line of JSON.
func say(answer map[string]any) {
	answer["at"] = time.Now().UnixNano()
	text, _ := json.Marshal(answer) // numbers and strings
	os.Stdout.Write(append(text, '\n'))
}

// commands calls do for each line of stdin, until it closes.
func commands(do func(words []string)) {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		do(append(strings.Fields(in.Text()), "", ""))
	}
}

// settle gives back what the garbage collector would give back in time, and answers with what is live.
func settle() {
	debug.FreeOSMemory()
	debug.FreeOSMemory() // pools keep what they have for one collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	say(map[string]any{"live": m.HeapAlloc + m.StackInuse, "goroutines": runtime.NumGoroutine()})
}

func runServer(args []string) error {
	flags := flag.NewFlagSet("server", flag.ExitOnError)
	var m mesh
	flags.IntVar(&m.services, "services", 0, "")
	flags.IntVar(&m.endpoints, "endpoints", 0, "")
	flags.IntVar(&m.namespaces, "namespaces", 1, "")
	flags.StringVar(&m.dir, "mesh", "", "")
	listen := flags.String("listen", "", "")
	quiet := flags.Duration("debounce", 0, "")
	limit := flags.Duration("sendTimeout", time.Minute, "")
	profile := flags.String("profile", "", "")
	flags.Parse(args)

	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	if *profile != "" {
		file, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	limits := ads.DefaultLimits()
	limits.SendTimeout, limits.Shutdown = *limit, time.Second
	proxies := ads.New(limits, log)
	loop := &discovery.Server{
		Sources: map[string]discovery.Source{"config": file.New(m.dir, 0, log)}, Pusher: proxies, Log: log,
		Debounce: discovery.Debounce{After: *quiet, Max: time.Second},
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer heap.Pace(os.Getenv)()
	done := make(chan error, 2)
	go func() { done <- loop.Run(ctx) }()
	go func() { done <- proxies.Serve(ctx, l) }()
	for !loop.Synced() {
		time.Sleep(time.Millisecond)
	}
	say(map[string]any{"ready": true})
	c := control{mesh: m, proxies: proxies}
	if *profile != "" {
		c.heap = *profile + ".heap"
	}
	commands(c.do)
	cancel()
	<-done
	return <-done
}

// control changes the mesh on command.
type control struct {
	mesh       mesh
	proxies    *ads.Server
	generation int
	heap       string // file for a profile of what is live, as of the last settling
}

func (c *control) do(words []string) {
	c.generation++
	switch words[0] {
	case "endpoint":
		c.change(7, c.generation, 50)
	case "weight":
		c.change(10, 0, int32(50+c.generation%40))
	case "service":
		c.change(c.mesh.services+c.generation, 0, 50)
	case "rate": // ten changes a second
		length, _ := time.ParseDuration(words[1])
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(length); time.Now().Before(end); <-tick.C {
			c.generation++
			c.change(7, c.generation, 50)
		}
	case "clients":
		synced := 0
		clients := c.proxies.Clients()
		for _, client := range clients {
			if len(client.Types) > 0 && allSynced(client.Types) {
				synced++
			}
		}
		say(map[string]any{"clients": len(clients), "synced": synced})
		return
	case "settle":
		settle()
		if c.heap != "" {
			if err := writeHeap(c.heap); err != nil {
				fmt.Fprintln(os.Stderr, "adsbench:", err)
			}
		}
		return
	default:
		fmt.Fprintln(os.Stderr, "unknown command", words[0])
	}
	say(map[string]any{"done": words[0]})
}

func allSynced(types []protocol.Type) bool {
	for _, t := range types {
		if t.State != protocol.StateSynced {
			return false
		}
	}
	return true
}

// change writes a file, as a person or a controller would.
func (c *control) change(i, generation int, weight int32) {
	if generation > 0 {
		generation = generation%1000 + 1
	}
	if err := c.mesh.change(i, generation, weight); err != nil {
		fmt.Fprintln(os.Stderr, "adsbench:", err)
	}
}

func writeHeap(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return pprof.Lookup("heap").WriteTo(file, 0)
}

// child is another role of this program in a process of its own.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	killer *time.Timer
}

// answer is a line that a child printed.
type answer struct {
	At                                int64
	Proxies, Responses, Streams       int
	First, Last, Bytes                int64
	Clients, Synced, Live, Goroutines int64
}

const childLimit = 5 * time.Minute // of its life

func start(role string, args ...any) (*child, error) {
	argv := []string{role}
	for _, a := range args {
		argv = append(argv, fmt.Sprint(a))
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(self, argv...)}
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	c.killer = time.AfterFunc(childLimit, func() { _ = c.cmd.Process.Kill() })
	_, err = c.read()
	return c, err
}

func (c *child) read() (a answer, err error) {
	if !c.out.Scan() {
		return a, fmt.Errorf("%s ended", c.cmd.Args[1])
	}
	return a, json.Unmarshal(c.out.Bytes(), &a)
}

func (c *child) ask(words ...any) (answer, error) {
	if err := c.tell(words...); err != nil {
		return answer{}, err
	}
	return c.read()
}

func (c *child) tell(words ...any) error {
	_, err := fmt.Fprintln(c.in, words...)
	return err
}

// stop closes the child's stdin, which ends it.
func (c *child) stop() {
	_ = c.in.Close()
	kill := time.AfterFunc(10*time.Second, func() { _ = c.cmd.Process.Kill() })
	_ = c.cmd.Wait()
	kill.Stop()
	c.killer.Stop()
}

// cpu is the processor time that the child has used.
func (c *child) cpu() time.Duration {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	_, rest, _ := strings.Cut(string(data), ") ")
	words := strings.Fields(rest)
	if len(words) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(words[11], 10, 64)
	system, _ := strconv.ParseInt(words[12], 10, 64)
	return time.Duration(user+system) * time.Second / 100
}

// forgetPeak makes what is resident now the most so far.
func (c *child) forgetPeak() {
	time.Sleep(time.Second) // proxies that left are forgotten by then
	c.ask("settle")
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", c.cmd.Process.Pid), []byte("5"), 0o200) // else the peak stays
}

// memory returns resident bytes: now, and the most so far.
func (c *child) memory() (rss, peak int64) {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	for line := range strings.Lines(string(data)) {
		for key, to := range map[string]*int64{"VmRSS:": &rss, "VmHWM:": &peak} {
			if value, ok := strings.CutPrefix(line, key); ok {
				kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
				*to = kilobytes << 10
			}
		}
	}
	return rss, peak
}
