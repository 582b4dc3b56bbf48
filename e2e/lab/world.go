package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// World is discovery with a directory of configuration, backends inside the test, and Envoys that discovery configures
// without an agent: for tests of the translation.
type World struct {
	Lab
	T         *testing.T
	Config    string     // directory that discovery serves
	Env       []string   // of Envoys
	Discovery *Discovery // shadows the function of the lab that starts it
	API       string     // of ADS, "DELTA_GRPC"; "GRPC" where it is ""
	Domain    string     // DNS domain of the cluster of Envoys; "cluster.local" where it is ""

	judge     func(text []byte) error
	addresses string
	next      int
}

// NewWorld starts discovery with these flags. judge returns the faults of a file of objects: it is called before
// discovery can read the file, since a test with a refused file would prove nothing. When the test ends it is an error
// if an Envoy has rejected a response of discovery.
func NewWorld(t *testing.T, judge func(text []byte) error, flags ...string) *World {
	t.Helper()
	dir := t.TempDir()
	w := &World{Lab: New(dir), T: t, Config: filepath.Join(dir, "config"), judge: judge, addresses: Addresses()}
	w.Check(os.MkdirAll(w.Config, 0o755))
	var err error
	w.Discovery, err = w.Lab.Discovery(w.Config, flags...)
	w.Check(err)
	t.Cleanup(func() {
		w.Discovery.Stop(StopLimit)
		log := w.Discovery.Log()
		if strings.Contains(log, "response refused") || strings.Contains(log, "proxy refuses a part") {
			t.Errorf("an Envoy refused what discovery sent:\n%s", log)
		}
	})
	return w
}

// Check ends the test with an error, if there is one.
func (w *World) Check(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// Address returns a loopback address that no other caller has.
func (w *World) Address() string {
	w.next++
	return fmt.Sprintf("%s%d", w.addresses, w.next)
}
