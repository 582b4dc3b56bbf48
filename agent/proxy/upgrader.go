package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/handoff"
	"github.com/pilotlight/pilotlight/agent/status"
	"github.com/pilotlight/pilotlight/watch"
)

// upgrader asks other images of the agent whether they would take over, and has the supervisor leave for one that would.
type upgrader struct {
	argv, environ []string
	path          string       // of the binary that an upgrade runs when no other one is asked for
	version       string       // of this image
	able          func() error // whether this image can be replaced
	ask           func(ctx context.Context, image *os.File, argv, environ []string) (handoff.Answer, error)
	leave         func(context.Context) error
	log           *slog.Logger

	asking sync.Mutex // one image at a time

	mu    sync.Mutex
	told  status.Upgrades
	image *os.File  // to execute once the supervisor has left
	asked time.Time // when it was asked
	left  bool      // the supervisor has left for it
}

// selfPath is the running image, also when its file was deleted.
const selfPath = "/proc/self/exe"

// startPath returns the path by which a program was started, absolute and with its links: after the file was replaced, or a link
// was led elsewhere, an upgrade runs the new file. Where a name does not lead to the running image, it is the path that this has now.
func startPath(name, search string) string {
	candidates := []string{name}
	if !strings.Contains(name, "/") {
		candidates = nil
		for _, dir := range filepath.SplitList(search) {
			candidates = append(candidates, filepath.Join(dir, name))
		}
	}
	for _, candidate := range candidates {
		path, err := filepath.Abs(candidate)
		if err == nil && sameAsRunning(path) {
			return path
		}
	}
	path, _ := os.Readlink(selfPath) // empty without /proc: then no image can be executed either
	return strings.TrimSuffix(path, " (deleted)")
}

func sameAsRunning(path string) bool {
	running, err1 := os.Stat(selfPath)
	file, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(running, file)
}

// upgrade asks the image at a path, the agent's own if it is empty, and has the supervisor leave. It returns before that is done, with what
// will run.
func (u *upgrader) upgrade(ctx context.Context, path string) (runs string, err error) {
	u.asking.Lock()
	defer u.asking.Unlock()
	if path == "" {
		path = u.path
	}
	version := ""
	if err = u.able(); err == nil {
		version, err = u.fetch(ctx, path)
	}
	if err == nil {
		same := sameAsRunning(path)
		runs = fmt.Sprintf("%s (%s), before %s", version, path, u.version)
		if same {
			runs = fmt.Sprintf("%s (%s), the same binary", version, path)
		}
		u.log.Info("another image of the agent goes on as soon as nothing is under way", "binary", path, "version", version, "before", u.version, "same_binary", same)
		handoff.At(handoff.Fetched)
		err = u.leave(ctx)
	}
	if err != nil {
		u.log.Warn("the agent is not replaced", "binary", path, "err", err)
		u.failed(err.Error(), time.Now())
	}
	return runs, err
}

// fetch opens an image that would take over.
func (u *upgrader) fetch(ctx context.Context, path string) (version string, err error) {
	image, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	answer, err := u.ask(ctx, image, u.argv, u.environ)
	if err == nil {
		err = roomFor(spareDescriptors)
	}
	if err != nil {
		return "", errors.Join(err, image.Close())
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.left {
		return "", errors.Join(errors.New("another image goes on already"), image.Close())
	}
	if u.image != nil {
		u.image.Close()
	}
	u.image, u.asked, u.told.Failure, u.told.Pending = image, time.Now(), "", answer.Version
	return answer.Version, nil
}

// stale is the age of an answer that no longer counts: settings may have changed while the image waited.
const stale = time.Second

// confirmed returns the image, and asks it again if it has waited. An error says why it cannot take over any more. From then on there is
// no other image.
func (u *upgrader) confirmed() (*os.File, error) {
	u.mu.Lock()
	image, asked := u.image, u.asked
	u.left = true
	u.mu.Unlock()
	if time.Since(asked) < stale {
		return image, nil
	}
	_, err := u.ask(context.Background(), image, u.argv, u.environ)
	return image, err
}

func (u *upgrader) failed(why string, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.told.Pending, u.told.Failure, u.told.At = "", why, at
}

// spareDescriptors is how many further descriptors a replacement needs at once, and a few more.
const spareDescriptors = 32

// roomFor returns an error if the process cannot open so many descriptors.
func roomFor(n int) (err error) {
	var held []int
	for range n {
		var fd int
		if fd, err = unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			err = fmt.Errorf("a replacement needs %d descriptors: %w", n, err)
			break
		}
		held = append(held, fd)
	}
	for _, fd := range held {
		unix.Close(fd)
	}
	return err
}

// observe notes that the supervisor stays.
func (u *upgrader) observe(news []agent.Event) {
	for _, e := range news {
		if e.Note == agent.Stayed {
			u.failed(e.Why, e.At)
		}
	}
}

func (u *upgrader) upgrades() status.Upgrades {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.told
}

// resume goes on with what the image before told, or counts a replacement.
func (u *upgrader) resume(told status.Upgrades, failure string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.told = told
	u.told.Pending, u.told.Failure, u.told.At, u.told.NotInForce = "", failure, time.Now(), nil
	if failure == "" {
		u.told.Count++
	} else {
		u.log.Error("the agent was not replaced, this image goes on", "err", failure)
	}
}

// later notes a setting that is not in force yet, and how it comes into force.
func (u *upgrader) later(what string) {
	u.log.Warn("a setting is not in force", "setting", what)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.told.NotInForce = append(u.told.NotInForce, what)
}

// follow upgrades at each request.
func (u *upgrader) follow(ctx context.Context, requests <-chan os.Signal, changes <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-requests:
			u.log.Info("SIGUSR2 received: the agent is replaced by the binary at its path")
		case <-changes:
			u.log.Info("the agent's binary has changed: the agent is replaced by it")
		}
		_, _ = u.upgrade(ctx, "") // it logs the error
	}
}

// followUpgrades has the agent replaced at each SIGUSR2, and at each change of its binary if that is wanted.
func (r *running) followUpgrades(ctx context.Context, feeders *sync.WaitGroup) {
	changes := make(chan struct{}, 1)
	if path := r.upgrader.path; r.config.UpgradeOnChange {
		before, _ := envoy.Fingerprint(path)
		ticks := make(chan struct{}, 1)
		watcher := watch.Watcher{Paths: []string{path}, Quiet: time.Second, Ceiling: 10 * time.Second, Recheck: recheck, Log: r.config.Log}
		feeders.Go(func() {
			if err := watcher.Run(ctx, ticks); err != nil && ctx.Err() == nil {
				r.config.Log.Error("the agent's binary is not watched", "err", err)
			}
		})
		feeders.Go(func() { changed(ctx, path, before, ticks, changes) })
	}
	feeders.Go(func() { r.upgrader.follow(ctx, r.process.Upgrade, changes) })
}

// changed passes on a tick when another file is at a path. A file that is being written is another one with each tick.
func changed(ctx context.Context, path, before string, ticks <-chan struct{}, changes chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		now, err := envoy.Fingerprint(path)
		if err != nil || now == before {
			continue
		}
		before = now
		select {
		case changes <- struct{}{}:
		case <-ctx.Done():
		}
	}
}
