package server

import (
	"cmp"

	"github.com/ackmesh/ackmesh/server/auth"
)

// TLSConfig secures the listeners. Cert, Key and ClientCA are for all three,
// but where HTTP or Admin has its own. The files are read at the start and at
// each reload.
type TLSConfig struct {
	// Cert is a file of PEM certificates: the server's, then those between it
	// and its root. Default empty: no TLS.
	Cert string `key:"cert"`
	// Key is the PEM file of the certificate's private key.
	Key string `key:"key"`
	// ClientCA is a PEM file of the roots that certificates of clients must
	// come from. Default empty: clients show none. With it, whoever shows none
	// does not get as far as a call.
	ClientCA string `key:"client-ca"`
	// HTTP and Admin are for one listener each; what is empty is as above.
	HTTP  TLSFiles `key:"http"`
	Admin TLSFiles `key:"admin"`
}

// TLSFiles are the files of one listener.
type TLSFiles struct {
	// Cert and Key are set together, or neither.
	Cert string `key:"cert"`
	Key  string `key:"key"`
	// ClientCA may also be none: clients show no certificate there, whatever
	// holds elsewhere.
	ClientCA string `key:"client-ca"`
}

// noClientCA is the ClientCA of a listener whose clients show no certificate.
const noClientCA = "none"

func (t TLSConfig) data() TLSFiles { return TLSFiles{t.Cert, t.Key, t.ClientCA} }

// over is what holds for a listener with files f of its own.
func (t TLSConfig) over(f TLSFiles) TLSFiles {
	out := t.data()
	if f.Cert != "" {
		out.Cert, out.Key = f.Cert, f.Key
	}
	if out.ClientCA = cmp.Or(f.ClientCA, out.ClientCA); out.ClientCA == noClientCA {
		out.ClientCA = ""
	}
	return out
}

func (t TLSConfig) http() TLSFiles  { return t.over(t.HTTP) }
func (t TLSConfig) admin() TLSFiles { return t.over(t.Admin) }

// AuthConfig says who may do what.
type AuthConfig struct {
	// TokensFile lists tokens with their roles. With it every data call needs a
	// token. Default empty: data calls need none.
	TokensFile string `key:"tokens-file"`
	// AdminToken is the token that operators use. Default empty: one is made at
	// the first start and kept in the data directory, readable by the server's
	// user only. An instance in memory has none then, and takes admin calls
	// with tokens of the tokens file only.
	AdminToken Secret `key:"admin-token"`
}

// checkSecurity refuses listeners that other machines reach without protection,
// and half of what TLS needs.
func (c Config) checkSecurity(p *problems) {
	if t := c.Auth.AdminToken; t != "" {
		if err := auth.CheckToken(string(t)); err != nil {
			p.add("auth.admin-token", "%w", err)
		}
	}
	checkTLS(p, "tls", c.TLS.data(), false)
	checkTLS(p, "tls.http", c.TLS.HTTP, c.TLS.http().Cert != "")
	checkTLS(p, "tls.admin", c.TLS.Admin, c.TLS.admin().Cert != "")
	if c.Insecure {
		return
	}
	c.checkReach(p, "listen", c.Listen, c.TLS.data(), true)
	c.checkReach(p, "http-listen", c.HTTPListen, c.TLS.http(), true)
	c.checkReach(p, "admin-listen", c.AdminListen, c.TLS.admin(), false)
}

// checkTLS checks the files of one group of settings. inherits tells whether a
// certificate may be that of another group.
func checkTLS(p *problems, key string, f TLSFiles, inherits bool) {
	if (f.Cert == "") != (f.Key == "") {
		p.add(key+".cert", "it goes with %s.key: set both or neither", key)
	}
	if f.ClientCA != "" && f.ClientCA != noClientCA && f.Cert == "" && !inherits {
		p.add(key+".client-ca", "it needs a certificate of the server's: set tls.cert and tls.key")
	}
	if f.ClientCA == noClientCA && key == "tls" {
		p.add("tls.client-ca", "leave it empty where no listener asks for certificates of clients")
	}
}

// checkReach refuses a listener that other machines reach and that lacks TLS, or
// tokens where it needs them.
func (c Config) checkReach(p *problems, key, addr string, f TLSFiles, tokens bool) {
	host, err := splitAddress(addr)
	if err != nil || isLoopback(host) {
		return // told elsewhere, or safe
	}
	const or = "or listen on a loopback address such as 127.0.0.1, or set insecure=true if that network may do and see everything"
	if f.Cert == "" {
		p.add(key, "other machines can reach %s, and without TLS everything can be read on the way: set tls.cert and tls.key, %s", addr, or)
	}
	if tokens && c.Auth.TokensFile == "" {
		p.add(key, "other machines can reach %s, and without tokens they may do everything: set auth.tokens-file, %s", addr, or)
	}
}
