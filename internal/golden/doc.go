// Package golden compares the output of a test with a golden file that a person has read: testdata/<TestName>.golden beside
// the test. `make golden` rewrites the files; read the diff before committing it.
//
// It compares bytes, or JSON documents without regard to spacing. It leaves the parsing of everything else to the test.
package golden
