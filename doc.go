// Package pilotlight has no code of its own. Its tests hold the rules of the whole project: which package imports which (deps_test.go),
// the words (lint_test.go), the paths (paths_test.go), and that each claim of README.md has its test (claims_test.go). It
// leaves what a package does to the tests of that package.
package pilotlight
