package dispatch

import (
	"sort"

	"github.com/ackmesh/ackmesh/storage"
)

// popSort sorts records with what was found about them.
type popSort struct {
	recs    []storage.Record
	expires []int64  // nil, or of each
	to      []string // nil, or of each
}

func (s popSort) sort()              { sort.Stable(s) }
func (s popSort) Len() int           { return len(s.recs) }
func (s popSort) Less(i, j int) bool { return s.recs[i].Partition < s.recs[j].Partition }

func (s popSort) Swap(i, j int) {
	s.recs[i], s.recs[j] = s.recs[j], s.recs[i]
	if s.expires != nil {
		s.expires[i], s.expires[j] = s.expires[j], s.expires[i]
	}
	if s.to != nil {
		s.to[i], s.to[j] = s.to[j], s.to[i]
	}
}
