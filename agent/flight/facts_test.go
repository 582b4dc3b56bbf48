package flight

import (
	"os"
	"testing"
	"testing/fstest"
)

func TestReadProcess(t *testing.T) {
	root := fstest.MapFS{"proc/7/status": {Data: []byte("Name:\tenvoy\nState:\tT (stopped)\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t9\n")}}
	got, err := ReadProcess(root, 7)
	if want := (Process{Pid: 7, State: "T (stopped)", Threads: 9, RSS: 1 << 20, PeakRSS: 2 << 20}); got != want || err != nil {
		t.Errorf("ReadProcess: %+v, %v; want %+v", got, err, want)
	}
	if _, err := ReadProcess(root, 8); err == nil {
		t.Error("ReadProcess of none: want an error")
	}
	if got, err := ReadProcess(os.DirFS("/"), os.Getpid()); err != nil || got.RSS == 0 || got.Threads == 0 || got.State == "" {
		t.Errorf("ReadProcess of this one: %+v, %v", got, err)
	}
}
