package frame

// Decode reads exactly one frame. Any bytes give a frame or an error, and
// nothing is allocated before the whole frame has been checked, except the
// error. The attributes are copied; Data is part of b, with its capacity cut.
func Decode(b []byte) (Frame, error) {
	v, err := Parse(b)
	if err != nil {
		return Frame{}, err
	}
	return v.Frame(), nil
}

// Frame returns the frame decoded. The attributes are copied; Data is not.
func (v View) Frame() Frame {
	return Frame{Type: v.Type(), Flags: v.Flags(), Seq: v.Seq(), Attributes: v.copyAttrs(), Data: v.Data()}
}

// copyAttrs copies all names and values as one string and cuts them out of it.
func (v View) copyAttrs() []Attribute {
	n := min(v.Count(), MaxAttributes)
	if n == 0 {
		return nil
	}
	text := string(v[headerLen : len(v)-len(v.Data())])
	attrs := make([]Attribute, 0, n)
	off := headerLen
	for range n {
		name, value, end, ok := attrAt(v, off)
		if !ok || end-headerLen > len(text) {
			break
		}
		at := off + 2 - headerLen
		to := end - headerLen
		attrs = append(attrs, Attribute{Name: text[at : at+len(name)], Value: text[to-len(value) : to]})
		off = end
	}
	return attrs
}
