package servertest_test

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/ackmesh/ackmesh/server"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// TestRecommendOverHTTP: what is odd about a request is told as the client's fault.
func TestRecommendOverHTTP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	in := StartParts(t, Options{}, func(p *server.Parts) { p.NoHTTP, p.HTTPListener = false, l })
	<-in.Server.Ready()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	for _, c := range []struct {
		method, query, body string
		want                int
	}{
		{method: "GET", want: 200},
		{method: "HEAD", want: 200},
		{method: "GET", query: "?client_id=a%20b&failed_instances=test&failed_instances=other", want: 200},
		{method: "GET", query: "?client_id=%ff", want: 400},
		{method: "GET", query: "?client_id=%zz", want: 400},
		{method: "GET", query: "?client_id=a&client_id=b", want: 400},
		{method: "POST", want: 200},
		{method: "POST", body: `{"clientId":"c","failedInstances":["test"],"subscriptions":[{"id":1}]}`, want: 200},
		{method: "POST", body: `[]`, want: 400},
		{method: "POST", body: "{\"clientId\":\"\xff\"}", want: 400},
		{method: "POST", body: `{"clientId":"` + strings.Repeat("x", 2<<20) + `"}`, want: 400},
		{method: "POST", body: strings.Repeat(`{"subscriptions":[`, 5000), want: 400},
		{method: "PUT", want: 405},
		{method: "DELETE", want: 405},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+l.Addr().String()+"/session/recommend"+c.query, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != c.want {
			t.Errorf("%s %s %.20s: %d, want %d", c.method, c.query, c.body, res.StatusCode, c.want)
		}
	}
}
