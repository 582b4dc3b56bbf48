package flight

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

func files(pairs ...string) fstest.MapFS {
	root := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		root[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return root
}

func TestReadCgroup(t *testing.T) {
	const self = "proc/self/cgroup"
	const events = "low 0\nhigh 3\nmax 9\noom 4\noom_kill 2\noom_group_kill 7\n"
	const control = "oom_kill_disable 0\nunder_oom 1\noom_kill 5\n"
	for _, test := range []struct {
		name string
		root fstest.MapFS
		want Cgroup
		err  string
	}{
		{
			"version 2",
			files(self, "0::/pod/a\n", "sys/fs/cgroup/pod/a/memory.events", events, "sys/fs/cgroup/pod/a/memory.current", "100\n",
				"sys/fs/cgroup/pod/a/memory.peak", "200\n", "sys/fs/cgroup/pod/a/memory.max", "max\n"),
			Cgroup{Version: 2, Path: "/sys/fs/cgroup/pod/a", OOMKill: 2, Usage: 100, Peak: 200},
			"",
		},
		{
			"version 2, in a namespace, with a limit",
			files(self, "0::/\n", "sys/fs/cgroup/memory.events", events, "sys/fs/cgroup/memory.max", "300\n"),
			Cgroup{Version: 2, Path: "/sys/fs/cgroup", OOMKill: 2, Limit: 300},
			"",
		},
		{
			"version 1",
			files(self, "9:name=systemd:/x\n4:cpu,memory:/a:b\n0::/\n", "sys/fs/cgroup/memory/a:b/memory.oom_control", control,
				"sys/fs/cgroup/memory/a:b/memory.usage_in_bytes", "1\n", "sys/fs/cgroup/memory/a:b/memory.max_usage_in_bytes", "2\n",
				"sys/fs/cgroup/memory/a:b/memory.limit_in_bytes", "9223372036854771712\n"),
			Cgroup{Version: 1, Path: "/sys/fs/cgroup/memory/a:b", OOMKill: 5, Usage: 1, Peak: 2},
			"",
		},
		{
			"version 1, with the host's path",
			files(self, "4:memory:/kubepods/x\n", "sys/fs/cgroup/memory/memory.oom_control", control,
				"sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n"),
			Cgroup{Version: 1, Path: "/sys/fs/cgroup/memory", OOMKill: 5, Limit: 4096},
			"",
		},
		{
			"a path that leads out", files(self, "0::/../../x\n", "sys/fs/cgroup/memory.events", events),
			Cgroup{Version: 2, Path: "/sys/fs/cgroup", OOMKill: 2},
			"",
		},
		{"an old kernel that does not count", files(self, "4:memory:/\n", "sys/fs/cgroup/memory/memory.oom_control", "under_oom 0\n"), Cgroup{Version: 1, Path: "/sys/fs/cgroup/memory"}, ""},
		{"not mounted", files(self, "0::/a\n"), Cgroup{}, `read cgroup: no memory.events of "/a" below /sys/fs/cgroup`},
		{"no proc", files(), Cgroup{}, "read cgroup: open proc/self/cgroup"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := ReadCgroup(test.root)
			if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("ReadCgroup: %+v, %v; want %+v, %q", got, err, test.want, test.err)
			}
		})
	}
}

func TestOOMKilled(t *testing.T) {
	at := func(path string, kills int64) Cgroup { return Cgroup{Version: 2, Path: path, OOMKill: kills} }
	for _, test := range []struct {
		name          string
		before, after Cgroup
		want          bool
	}{
		{"no kill", at("a", 2), at("a", 2), false},
		{"a kill", at("a", 2), at("a", 3), true},
		{"another group", at("a", 2), at("b", 3), false},
		{"not read before", Cgroup{}, at("a", 3), false},
		{"not read after", at("a", 3), Cgroup{}, false},
	} {
		if got := OOMKilled(test.before, test.after); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestReadProcess(t *testing.T) {
	root := files("proc/7/status", "Name:\tenvoy\nState:\tT (stopped)\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t9\n")
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
