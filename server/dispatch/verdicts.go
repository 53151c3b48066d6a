package dispatch

// verdicts keeps what filters have said of the records of a chunk: subscribers
// that filter by the same text share them. They belong to a loop and live as long
// as the chunk. They take two bits a record and text.
type verdicts []verdict

// maxVerdicts is how many texts are kept; who filters by another asks each time.
const maxVerdicts = 8

// verdict is what one filter has said.
type verdict struct {
	text  string
	asked []uint64 // bit i: of record i
	match []uint64
}

// of is where to keep what a filter says of n records; nil: nowhere.
func (v *verdicts) of(text string, n int) *verdict {
	for i := range *v {
		if (*v)[i].text == text {
			return &(*v)[i]
		}
	}
	if len(*v) == maxVerdicts {
		return nil
	}
	words := (n + 63) / 64
	bits := make([]uint64, 2*words)
	*v = append(*v, verdict{text: text, asked: bits[:words], match: bits[words:]})
	return &(*v)[len(*v)-1]
}

// get tells what was said of record i, and whether anything was.
func (v *verdict) get(i int) (match, asked bool) {
	bit := uint64(1) << (i % 64)
	return v.match[i/64]&bit != 0, v.asked[i/64]&bit != 0
}

// put notes what is said of record i.
func (v *verdict) put(i int, match bool) {
	bit := uint64(1) << (i % 64)
	v.asked[i/64] |= bit
	if match {
		v.match[i/64] |= bit
	}
}

// wanted tells whether a subscriber wants record i.
func (c *chunk) wanted(i int, sub *subscriber) bool {
	if sub.filter == nil {
		return true
	}
	v := c.verdicts.of(sub.settings.Filter, len(c.batch.Records))
	if v == nil {
		return sub.matches(&c.batch.Records[i])
	}
	match, asked := v.get(i)
	if !asked {
		match = sub.matches(&c.batch.Records[i])
		v.put(i, match)
	}
	return match
}
