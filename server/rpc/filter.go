package rpc

import (
	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/server/dispatch"
)

// compileFilter makes a filter of a CloudEvents SQL expression.
func compileFilter(expr string) (dispatch.Filter, error) {
	if expr == "" {
		return nil, invalid("filter", "is empty: MULTICAST needs one, BROADCAST gets everything")
	}
	return nil, invalid("filter", "filters are not served by this version: use BROADCAST")
}

var _ = frame.View(nil)
