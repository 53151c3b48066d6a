// Package filter decides by a CloudEvents SQL expression which records a
// MULTICAST subscriber gets (CloudEvents SQL 1.0).
package filter

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/antlr/antlr4/runtime/Go/antlr"
	cesql "github.com/cloudevents/sdk-go/sql/v2"
	sqlerrors "github.com/cloudevents/sdk-go/sql/v2/errors"
	"github.com/cloudevents/sdk-go/sql/v2/gen"
	"github.com/cloudevents/sdk-go/sql/v2/parser"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"

	"github.com/ackmesh/ackmesh/frame"
)

// Bounds of an expression: they bound what evaluating it can cost.
const (
	MaxLen    = 4096
	MaxTokens = 512
	MaxDepth  = 64
)

// Error says why an expression is no filter, and where.
type Error struct {
	// Column counts characters from 1; 0: the expression as a whole.
	Column  int
	Problem string
}

// Error names the place.
func (e *Error) Error() string {
	if e.Column == 0 {
		return e.Problem
	}
	return fmt.Sprintf("column %d: %s", e.Column, e.Problem)
}

// Filter is a compiled expression, safe for concurrent use.
type Filter struct {
	expr  cesql.Expression
	names []string // the attributes it looks at
}

// Compile compiles an expression once. Errors are *Error.
func Compile(text string) (f *Filter, err error) {
	switch {
	case strings.TrimSpace(text) == "":
		return nil, &Error{Problem: "is empty: MULTICAST needs an expression, BROADCAST gets everything"}
	case len(text) > MaxLen:
		return nil, &Error{Problem: fmt.Sprintf("has %d bytes, at most %d are allowed", len(text), MaxLen)}
	}
	defer func() { // the generated parser panics on some bad input
		if p := recover(); p != nil {
			f, err = nil, &Error{Problem: fmt.Sprintf("is no CloudEvents SQL: %v", p)}
		}
	}()
	names, err := scan(text)
	if err != nil {
		return nil, err
	}
	expr, err := parser.Parse(text)
	if err != nil {
		return nil, &Error{Problem: err.Error()}
	}
	f = &Filter{expr: expr, names: names}
	if _, err := expr.Evaluate(f.event(noAttributes)); sqlerrors.IsMissingFunctionError(err) {
		return nil, &Error{Problem: err.Error()}
	}
	return f, nil
}

// noAttributes is a stored frame without any: it shows what is wrong with an
// expression whatever it is asked about.
var noAttributes = func() frame.View {
	raw, err := frame.Append(nil, &frame.Frame{Type: frame.Event})
	if err != nil {
		panic(err) // an empty frame is legal
	}
	return raw
}()

// listener collects the first syntax error with its place.
type listener struct {
	antlr.DefaultErrorListener
	err *Error
}

// SyntaxError is called by the generated parser.
func (l *listener) SyntaxError(_ antlr.Recognizer, _ any, _, column int, msg string, _ antlr.RecognitionException) {
	if l.err == nil {
		l.err = &Error{Column: column + 1, Problem: msg}
	}
}

// scan checks the syntax and lists the attributes that are named.
func scan(text string) ([]string, error) {
	l := &listener{}
	lexer := gen.NewCESQLParserLexer(parser.NewCaseChangingStream(antlr.NewInputStream(text), true))
	lexer.RemoveErrorListeners()
	lexer.AddErrorListener(l)
	stream := antlr.NewCommonTokenStream(lexer, antlr.TokenDefaultChannel)
	stream.Fill()
	names, err := tokens(stream.GetAllTokens())
	if err != nil {
		return nil, err
	}
	p := gen.NewCESQLParserParser(stream)
	p.RemoveErrorListeners()
	p.AddErrorListener(l)
	p.Cesql()
	if l.err != nil {
		return nil, l.err
	}
	return names, nil
}

func tokens(list []antlr.Token) ([]string, error) {
	if len(list) > MaxTokens {
		return nil, &Error{Column: list[MaxTokens].GetColumn() + 1, Problem: fmt.Sprintf("more than %d words", MaxTokens)}
	}
	var names []string
	depth := 0
	for _, t := range list {
		switch t.GetTokenType() {
		case gen.CESQLParserLexerLR_BRACKET, gen.CESQLParserLexerNOT, gen.CESQLParserLexerMINUS:
			if depth++; depth > MaxDepth {
				return nil, &Error{Column: t.GetColumn() + 1, Problem: fmt.Sprintf("nested more than %d deep", MaxDepth)}
			}
		case gen.CESQLParserLexerRR_BRACKET:
			depth--
		default:
			if name := strings.ToLower(t.GetText()); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// Match tells whether a record is wanted. An expression that cannot be evaluated
// for it, as when an attribute is missing, does not want it.
func (f *Filter) Match(v frame.View) (ok bool) {
	defer func() {
		if recover() != nil { // a fault of the evaluator concerns this record only
			ok = false
		}
	}()
	val, err := f.expr.Evaluate(f.event(v))
	if err != nil {
		return false
	}
	ok, isBool := val.(bool)
	return isBool && ok
}

// event holds the attributes that the expression looks at.
func (f *Filter) event(v frame.View) event.Event {
	c := &event.EventContextV1{}
	for _, name := range f.names {
		if val, ok := v.Attr(name); ok {
			set(c, name, string(val))
		}
	}
	return event.Event{Context: c}
}

// verbatim is a URL that is written as val, whatever that is: parsed and written
// again it could be another text.
func verbatim(val string) url.URL { return url.URL{Opaque: val} }

func set(c *event.EventContextV1, name, val string) {
	switch name {
	case frame.AttrID:
		c.ID = val
	case frame.AttrType:
		c.Type = val
	case frame.AttrSubject:
		c.Subject = &val
	case frame.AttrDataContentType:
		c.DataContentType = &val
	case frame.AttrSource:
		c.Source = types.URIRef{URL: verbatim(val)}
	case frame.AttrDataSchema:
		c.DataSchema = &types.URI{URL: verbatim(val)}
	case frame.AttrTime:
		if t, err := time.Parse(time.RFC3339Nano, val); err == nil {
			c.Time = &types.Timestamp{Time: t}
		}
	default:
		if c.Extensions == nil {
			c.Extensions = map[string]any{}
		}
		c.Extensions[name] = val
	}
}
