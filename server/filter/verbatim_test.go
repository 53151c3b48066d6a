package filter

import "testing"

// TestAsPublished: attributes are compared as they were published, also where the
// CloudEvents library would write them in another way.
func TestAsPublished(t *testing.T) {
	for _, c := range [][3]string{
		{"source", "/my shop", "source = '/my shop'"},
		{"source", "/läden", "source = '/läden'"},
		{"source", "http://a.b/%7Ec", "source = 'http://a.b/%7Ec'"},
		{"source", "%zz", "source = '%zz'"},
		{"source", "a:b", "source = 'a:b'"},
		{"source", "HTTP://A.b/", "source = 'HTTP://A.b/'"},
		{"dataschema", "http://a.b/c d", "dataschema = 'http://a.b/c d'"},
		{"dataschema", "schema 1", "dataschema = 'schema 1'"},
		{"time", "2024-01-01T00:00:00+02:00", "time = '2024-01-01T00:00:00+02:00'"},
		{"subject", "x", "SUBJECT = 'x'"},
		{"datacontenttype", "text/plain", "datacontenttype = 'text/plain'"},
		{"id", "1", "id = 1"},
	} {
		f, err := Compile(c[2])
		if err != nil {
			t.Errorf("%s: %v", c[2], err)
			continue
		}
		if !f.Match(stored(t, c[0], c[1])) {
			t.Errorf("%s does not match %s %q", c[2], c[0], c[1])
		}
	}
}
