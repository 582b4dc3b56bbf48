package traffic

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// kept waits until a state directory has a file of each source that is of after a time.
func (w *world) kept(dir string, after time.Time, sources ...string) {
	w.T.Helper()
	w.Check(lab.Eventually(30*time.Second, func() error {
		for _, source := range sources {
			found, _ := filepath.Glob(filepath.Join(dir, source+"-*.state"))
			if len(found) != 1 {
				return fmt.Errorf("of %s there is %v", source, found)
			}
			if info, err := os.Stat(found[0]); err != nil || info.ModTime().Before(after) {
				return fmt.Errorf("of %s nothing is written: %v", source, err)
			}
		}
		return nil
	}))
}

// killed ends discovery without a warning.
func (w *world) killed() {
	w.T.Helper()
	w.Discovery.Signal(syscall.SIGKILL)
	_, err := w.Discovery.Wait(lab.StopLimit)
	w.Check(err)
}

// says waits until a page of discovery has all these texts.
func (w *world) says(path string, texts ...string) {
	w.T.Helper()
	w.Check(lab.Eventually(30*time.Second, func() error {
		page, err := lab.Get("http://" + w.Discovery.HTTP + path)
		for _, text := range texts {
			if err == nil && !strings.Contains(page, text) {
				err = fmt.Errorf("%s is %q, want %q in it", path, page, text)
			}
		}
		return err
	}))
}

// MeshConfig and a file of objects are broken while discovery is away: the next start serves their last good form to an Envoy
// that is new, keeps closed what is closed, and names both. What changes in other files arrives, and so does the mend.
func TestAStartWithBrokenFiles(t *testing.T) {
	t.Parallel()
	state, settings := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "mesh.yaml")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const closed = "outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n"
	write(settings, closed)
	w := newWorld(t, "--meshConfig", settings, "--stateDir", state)
	app, outside := w.Backend("app"), w.Backend("outside")
	w.Service("app.test", app)
	first := w.SidecarEnvoy("first", "")
	first.Until(lab.From("app"), "http://app.test/")
	unknown := fmt.Sprintf("http://%s:%d/", outside.IP, outside.Port)
	first.Until(lab.Status(502), unknown)
	w.kept(state, time.Time{}, "config", "meshConfig")
	w.Check(lab.Eventually(30*time.Second, func() error { // five seconds after the change
		files, err := filepath.Glob(filepath.Join(state, "config-*.state"))
		w.Check(err)
		if text, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(text), "ServiceEntry") {
			return fmt.Errorf("it has %s, %v", text, err)
		}
		return nil
	}))
	object, err := os.ReadFile(filepath.Join(w.Config, "serviceentry-app.test.yaml"))
	w.Check(err)

	load := lab.StartLoad(first.HTTP, "http://app.test/", 2, 1)
	w.killed()
	write(settings, strings.Replace(closed, "REGISTRY_ONLY}", "REGISTRY_ONLY", 1))
	write(filepath.Join(w.Config, "serviceentry-app.test.yaml"), strings.Replace(string(object), "spec:", "spec", 1))
	w.Check(w.Discovery.Restart())
	late := w.SidecarEnvoy("late", "")
	late.Until(lab.From("app"), "http://app.test/")
	late.Until(lab.Status(502), unknown)
	w.says("/ready?verbose", "ready\n", "serviceentry-app.test.yaml", settings,
		"source meshConfig: 1 groups are from before the start", "source config: 1 groups are from before the start")
	w.says("/debug/sources", `"rememberedGroups": 1`)
	w.Service("more.test", w.Backend("more"))
	late.Until(lab.From("more"), "http://more.test/")
	first.Until(lab.Status(502), unknown)

	write(filepath.Join(w.Config, "serviceentry-app.test.yaml"), string(object))
	write(settings, strings.Replace(closed, "REGISTRY_ONLY", "ALLOW_ANY", 1))
	late.Until(lab.From("outside"), unknown)
	w.Check(lab.Eventually(30*time.Second, func() error {
		if page, err := lab.Get("http://" + w.Discovery.HTTP + "/ready?verbose"); err != nil || strings.Contains(page, "before the start") {
			return fmt.Errorf("mended, it says %q, %v", page, err)
		}
		return nil
	}))
	first.Until(lab.From("app"), "http://app.test/")
	lab.Unharmed(t, load)
}

// A disk that is full or read-only harms nobody: discovery serves, says that nothing is written, and writes when it can. What
// was written before the disk was full is what the next start has.
func TestTheDiskOfTheStateIsFull(t *testing.T) {
	t.Parallel()
	lab.InMountNamespace(t, func(t *testing.T) {
		full, frozen := t.TempDir(), t.TempDir()
		lab.MountTmpfs(t, full, "size=64k,mode=700", 0)
		lab.MountTmpfs(t, frozen, "size=64k,mode=700", syscall.MS_RDONLY)
		ballast := filepath.Join(full, "ballast")
		for dir, want := range map[string]string{full: "no space left on device", frozen: "read-only file system"} {
			if dir == full {
				lab.Fill(t, ballast)
			}
			w := newWorld(t, "--stateDir", dir)
			w.Service("app.test", w.Backend("app"))
			w.says("/ready?verbose", "ready\n", "state: source config is not written", want)
			if dir == frozen {
				continue
			}
			began := time.Now()
			w.Check(os.Remove(ballast))
			w.kept(full, began.Add(-time.Second), "config")
			lab.Fill(t, ballast)
			w.Service("more.test", w.Backend("more"))
			w.says("/ready?verbose", "state: source config is not written since", want)
			w.killed()
			path := filepath.Join(w.Config, "serviceentry-app.test.yaml")
			object, err := os.ReadFile(path)
			w.Check(err)
			w.Check(os.WriteFile(path, []byte(strings.Replace(string(object), "spec:", "spec", 1)), 0o644))
			w.Check(w.Discovery.Restart())
			w.says("/v1/registration", "app.test", "more.test")
			w.Check(os.Remove(ballast))
		}
	})
}
