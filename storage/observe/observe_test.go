package observe_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/ackmesh/ackmesh/storage/observe"
)

// What is left out does nothing; what is given stays.
func TestWithDefaults(t *testing.T) {
	all := observe.Broker{}.WithDefaults()
	for name, f := range reflect.ValueOf(all).Fields() {
		if f.IsNil() {
			t.Errorf("%s is nil", name.Name)
		}
	}
	all.BrokerFailed("b", errors.New("gone")) // must not panic
	failed := 0
	b := observe.Broker{BrokerFailed: func(string, error) { failed++ }}.WithDefaults()
	b.BrokerFailed("b", errors.New("gone"))
	if failed != 1 {
		t.Errorf("the given func was called %d times", failed)
	}
}
