package hotrestart

import (
	"math"
	"os"
	"strings"
	"testing"
)

func TestFamilyRangeFitsEnvoysInt(t *testing.T) {
	if top := int64(lastBaseID)*scale + lastSocket; top > math.MaxInt32 || top+scale <= math.MaxInt32 {
		t.Errorf("the last family names a socket %d, want the last that fits %d", top, math.MaxInt32)
	}
	for range 100 {
		f, err := NewBaseID()
		if err != nil || f < firstBaseID || f > lastBaseID {
			t.Fatalf("NewFamily: got %d, %v; want %d to %d", f, err, firstBaseID, lastBaseID)
		}
	}
}

func TestDrawFamilyPassesOverWhatIsTaken(t *testing.T) {
	taken, free := newBaseID(t), newBaseID(t)
	touch(t, taken.Segment())
	draws := []BaseID{taken, taken, free}
	got, err := drawBaseID(func() BaseID { f := draws[0]; draws = draws[1:]; return f })
	if got != free || err != nil {
		t.Errorf("drawFamily: got %d, %v; want %d, the first that is free", got, err, free)
	}
	if _, err := drawBaseID(func() BaseID { return taken }); err == nil || !strings.Contains(err.Error(), SharedMemoryDir) {
		t.Errorf("drawFamily with nothing free: %v, want an error that says where it looked", err)
	}
}

func TestBoundInKnowsEachOfAFamilysSockets(t *testing.T) {
	const before = "Num RefCount Protocol Flags Type St Inode Path\n" +
		"000000003e421291: 00000003 00000000 00000000 0001 03  1587\n" +
		"00000000a37421e3: 00000002 00000000 00000000 0002 01 134502 "
	for _, test := range []struct {
		path string
		want bool
	}{
		{"@envoy_domain_socket_parent_200000010" + strings.Repeat("@", 71), true},
		{"@envoy_domain_socket_child_200000012@@", true},
		{"@envoy_domain_socket_udp_child_200000011@@", true},
		{"@envoy_domain_socket_udp_parent_200000010", true},
		{"@envoy_domain_socket_parent_200000020@@", false},
		{"@envoy_domain_socket_parent_20000001@@", false},
		{"@envoy_domain_socket_parent_18446744073414584330@@", false},
		{"@envoy_domain_socket_parent_@@", false},
		{"/etc/istio/proxy/hot_parent_200000010", true}, // a file
		{"/etc/istio/proxy/hot_udp_child_200000012", true},
		{"/etc/istio/proxy/hot_parent_200000020", false},
		{"@other_200000010", false},
	} {
		if got := BaseID(20000001).boundIn(before + test.path + "\n"); got != test.want {
			t.Errorf("%s: got %t, want %t", test.path, got, test.want)
		}
	}
}

// newBaseID returns a free family whose segment is removed after the test.
func newBaseID(t *testing.T) BaseID {
	t.Helper()
	f, err := NewBaseID()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(f.Segment()) })
	return f
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
