// Package version tells which build a binary is. It reads what the Go linker recorded in the binary. A build outside a
// repository, such as that of an image, sets release and revision with linker flags
// (-ldflags "-X …/internal/version.release=1.2.3").
//
// It does not run git, and leaves the output format to the commands.
package version
