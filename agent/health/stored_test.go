package health

import (
	"slices"
	"testing"
)

// The conditions of a State that another image of the agent has left are told apart by their places.
func TestStoredConditionsKeepTheirPlaces(t *testing.T) {
	want := []Type{"ProcessUp", "AdminAnswers", "CDSReceived", "LDSReceived", "WorkersStarted", "ListenersBound", "CertificatesValid"}
	places := []int{processUp, adminAnswers, cdsReceived, ldsReceived, workersStarted, listenersBound, certificatesValid}
	if !slices.Equal(types[:], want) || !slices.Equal(places, []int{0, 1, 2, 3, 4, 5, 6}) {
		t.Errorf("the conditions are %v at %v, want %v in this order", types, places, want)
	}
}
