package cgroup

import (
	"testing"
	"testing/fstest"
)

func TestReadLimits(t *testing.T) {
	const self = "proc/self/cgroup"
	for _, test := range []struct {
		name string
		root fstest.MapFS
		want Limits
	}{
		{
			"version 2", files(self, "0::/pod\n", "sys/fs/cgroup/pod/cpu.max", "150000 100000\n", "sys/fs/cgroup/pod/memory.max", "1048576\n"),
			Limits{1.5, 1 << 20},
		},
		{"version 2, none", files(self, "0::/pod\n", "sys/fs/cgroup/pod/cpu.max", "max 100000\n", "sys/fs/cgroup/pod/memory.max", "max\n"), Limits{}},
		{
			"version 2, a tighter one above", files(self, "0::/slice/pod\n", "sys/fs/cgroup/slice/cpu.max", "50000 100000\n",
				"sys/fs/cgroup/slice/pod/cpu.max", "200000 100000\n", "sys/fs/cgroup/slice/memory.max", "10\n", "sys/fs/cgroup/slice/pod/memory.max", "20\n"),
			Limits{0.5, 10},
		},
		{"version 2, in a namespace", files(self, "0::/\n", "sys/fs/cgroup/cpu.max", "200000 100000\n"), Limits{CPUs: 2}},
		{"version 1", files(self, "3:cpu,cpuacct:/a\n4:memory:/b\n", "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "50000\n",
			"sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n", "sys/fs/cgroup/memory/b/memory.limit_in_bytes", "4096\n"), Limits{0.5, 4096}},
		{"version 1, none", files(self, "3:cpu:/a\n4:memory:/b\n", "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n",
			"sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n", "sys/fs/cgroup/memory/b/memory.limit_in_bytes", "9223372036854771712\n"), Limits{}},
		{"a path that leads out", files(self, "0::/../../x\n", "sys/fs/cgroup/cpu.max", "100000 100000\n"), Limits{CPUs: 1}},
		{"nothing mounted", files(self, "0::/a\n"), Limits{}},
		{"no proc", files(), Limits{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := ReadLimits(test.root); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestWorkers(t *testing.T) {
	for _, test := range []struct {
		cpus       float64
		processors int
		want       int
	}{{0, 4, 4}, {0.5, 4, 1}, {1, 4, 1}, {1.5, 4, 1}, {2, 4, 2}, {8, 4, 4}, {0, 1, 1}} {
		if got := (Limits{CPUs: test.cpus}).Workers(test.processors); got != test.want {
			t.Errorf("%v CPUs on %d processors: got %d workers, want %d", test.cpus, test.processors, got, test.want)
		}
	}
}
