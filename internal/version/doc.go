// Package version identifies the build of a binary. It reads the data that the Go linker recorded in the binary. A build
// outside a repository, such as that of an image, sets release and revision with linker flags
// (-ldflags "-X …/internal/version.release=1.2.3").
//
// It does not run git, and the commands choose the output format.
package version
