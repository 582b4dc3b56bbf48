package plane

import (
	"math"
	"syscall"
)

// reservedDescriptors is how many descriptors proxies do not get: two HTTP ports of maxConnections, and 32 for
// listeners and files.
const reservedDescriptors = 2*maxConnections + 32

// maxProxyConnections returns how many connections of proxies the descriptors allow.
func maxProxyConnections(descriptors int) int {
	return max(descriptors-reservedDescriptors, descriptors/4, 1)
}

// descriptors returns how many the process may have. Go has raised the soft limit to the hard one.
func descriptors() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 1024
	}
	return int(min(limit.Cur, math.MaxInt32))
}
