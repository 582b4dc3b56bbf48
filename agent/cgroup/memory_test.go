package cgroup

import (
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

func TestReadMemory(t *testing.T) {
	const self = "proc/self/cgroup"
	const events = "low 0\nhigh 3\nmax 9\noom 4\noom_kill 2\noom_group_kill 7\n"
	const control = "oom_kill_disable 0\nunder_oom 1\noom_kill 5\n"
	for _, test := range []struct {
		name string
		root fstest.MapFS
		want Memory
		err  string
	}{
		{
			"version 2",
			files(self, "0::/pod/a\n", "sys/fs/cgroup/pod/a/memory.events", events, "sys/fs/cgroup/pod/a/memory.current", "100\n",
				"sys/fs/cgroup/pod/a/memory.peak", "200\n", "sys/fs/cgroup/pod/a/memory.max", "max\n"),
			Memory{Version: 2, Path: "/sys/fs/cgroup/pod/a", OOMKill: 2, Usage: 100, Peak: 200},
			"",
		},
		{
			"version 2, in a namespace, with a limit",
			files(self, "0::/\n", "sys/fs/cgroup/memory.events", events, "sys/fs/cgroup/memory.max", "300\n"),
			Memory{Version: 2, Path: "/sys/fs/cgroup", OOMKill: 2, Limit: 300},
			"",
		},
		{
			"version 1",
			files(self, "9:name=systemd:/x\n4:cpu,memory:/a:b\n0::/\n", "sys/fs/cgroup/memory/a:b/memory.oom_control", control,
				"sys/fs/cgroup/memory/a:b/memory.usage_in_bytes", "1\n", "sys/fs/cgroup/memory/a:b/memory.max_usage_in_bytes", "2\n",
				"sys/fs/cgroup/memory/a:b/memory.limit_in_bytes", "9223372036854771712\n"),
			Memory{Version: 1, Path: "/sys/fs/cgroup/memory/a:b", OOMKill: 5, Usage: 1, Peak: 2},
			"",
		},
		{
			"version 1, with the host's path",
			files(self, "4:memory:/kubepods/x\n", "sys/fs/cgroup/memory/memory.oom_control", control,
				"sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n"),
			Memory{Version: 1, Path: "/sys/fs/cgroup/memory", OOMKill: 5, Limit: 4096},
			"",
		},
		{
			"a path that leads out", files(self, "0::/../../x\n", "sys/fs/cgroup/memory.events", events),
			Memory{Version: 2, Path: "/sys/fs/cgroup", OOMKill: 2},
			"",
		},
		{"an old kernel that does not count", files(self, "4:memory:/\n", "sys/fs/cgroup/memory/memory.oom_control", "under_oom 0\n"), Memory{Version: 1, Path: "/sys/fs/cgroup/memory"}, ""},
		{"not mounted", files(self, "0::/a\n"), Memory{}, `read cgroup: no memory.events of "/a" below /sys/fs/cgroup`},
		{"no proc", files(), Memory{}, "read cgroup: open proc/self/cgroup"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := ReadMemory(test.root)
			if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("ReadMemory: %+v, %v; want %+v, %q", got, err, test.want, test.err)
			}
		})
	}
}

func TestOOMKilled(t *testing.T) {
	at := func(path string, kills int64) Memory { return Memory{Version: 2, Path: path, OOMKill: kills} }
	for _, test := range []struct {
		name          string
		before, after Memory
		want          bool
	}{
		{"no kill", at("a", 2), at("a", 2), false},
		{"a kill", at("a", 2), at("a", 3), true},
		{"another group", at("a", 2), at("b", 3), false},
		{"not read before", Memory{}, at("a", 3), false},
		{"not read after", at("a", 3), Memory{}, false},
	} {
		if got := OOMKilled(test.before, test.after); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
