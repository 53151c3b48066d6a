package delivery

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/offset"
	"github.com/ackmesh/ackmesh/offsetstore"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts in testdata print into them")

// TestScripts runs testdata/*.txt. A script is made of blocks with an empty
// line between: commands, a line of dashes, what they print.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runScript(t, file) })
	}
}

func runScript(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	s := newScript()
	for _, block := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		commands, want, isTest := strings.Cut(block+"\n", "\n----\n")
		if !isTest {
			out = append(out, strings.TrimSpace(block))
			continue
		}
		got := s.runBlock(commands)
		out = append(out, strings.TrimSpace(commands+"\n----\n"+got))
		if !*rewrite && strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("%s\nprints\n%s\nwant\n%s", commands, got, want)
		}
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(strings.Join(out, "\n\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// script is the shell of a machine as a script needs it.
type script struct {
	m      *Machine
	set    Settings
	now    time.Time
	saved  offsetstore.Value
	saving offsetstore.Value
	ids    uint64
	sent   []scriptDelivery
	keys   map[int64]uint64
	out    strings.Builder
}

type scriptDelivery struct {
	s     StreamID
	first uint64
	bit   uint64
	off   int64
}

// scriptStart is when scripts begin; due times are printed relative to it.
var scriptStart = time.UnixMilli(1_700_000_000_000)

func newScript() *script { return &script{now: scriptStart, ids: 1, keys: map[int64]uint64{}} }

// args are the words of a command: offsets and names, and options with "=".
type args struct {
	words   []string
	options map[string]string
}

func parseArgs(words []string) args {
	a := args{options: map[string]string{}}
	for _, w := range words {
		if k, v, ok := strings.Cut(w, "="); ok {
			a.options[k] = v
			continue
		}
		a.words = append(a.words, w)
	}
	return a
}

func (a args) int(name string, def int64) int64 {
	if v, ok := a.options[name]; ok {
		return mustInt(v)
	}
	return def
}

func (a args) duration(name string, def time.Duration) time.Duration {
	if v, ok := a.options[name]; ok {
		return mustDuration(v)
	}
	return def
}

func (a args) has(word string) bool {
	for _, w := range a.words {
		if w == word {
			return true
		}
	}
	return false
}

// ranges are the words that are offsets.
func (a args) ranges() []offset.Range {
	var out []offset.Range
	for _, w := range a.words {
		if w[0] < '0' || w[0] > '9' {
			continue
		}
		first, last, ok := strings.Cut(w, "-")
		if !ok {
			last = first
		}
		out = append(out, offset.Range{First: mustInt(first), Last: mustInt(last)})
	}
	return out
}

func (a args) offsets() []int64 {
	var out []int64
	for _, r := range a.ranges() {
		for o := r.First; o <= r.Last; o++ {
			out = append(out, o)
		}
	}
	return out
}

func mustInt(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func mustDuration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return d
}

func (s *script) printf(format string, v ...any) { fmt.Fprintf(&s.out, format+"\n", v...) }

func (s *script) runBlock(commands string) string {
	s.out.Reset()
	for _, line := range strings.Split(commands, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		command, ok := scriptCommands[words[0]]
		if !ok {
			s.printf("no command %q", words[0])
			continue
		}
		command(s, parseArgs(words[1:]))
	}
	return s.out.String()
}

var scriptCommands = map[string]func(*script, args){
	"new":      (*script).start,
	"crash":    (*script).crash,
	"attach":   (*script).attach,
	"detach":   (*script).detach,
	"deliver":  (*script).deliver,
	"retry":    (*script).retry,
	"ack":      (*script).ack,
	"nack":     (*script).nack,
	"extend":   (*script).extend,
	"tick":     (*script).tick,
	"commit":   (*script).commit,
	"snapshot": (*script).snapshot,
	"end":      (*script).end,
	"finish":   func(s *script, a args) { s.m.Finish(a.offsets()...) },
	"absent":   func(s *script, a args) { s.m.Absent(a.ranges()[0]) },
	"raise":    func(s *script, a args) { s.m.Raise(a.offsets()[0]) },
	"pass":     func(s *script, a args) { s.m.Pass(a.offsets()[0]) },
	"kill":     func(s *script, a args) { s.m.Kill(a.offsets()[0], ReasonTooLarge, a.options["detail"]) },
	"undead":   func(s *script, a args) { s.m.Undead(a.offsets()[0]) },
	"reset":    (*script).reset,
	"dead":     (*script).dead,
	"state":    (*script).state,
	"deadline": (*script).deadline,
}

// settings changes what the options name.
func (s *script) settings(a args) {
	s.set.MaxAttempts = int(a.int("max-attempts", int64(s.set.MaxAttempts)))
	s.set.MaxWaiting = int(a.int("max-waiting", int64(s.set.MaxWaiting)))
	s.set.MaxAhead = a.int("max-ahead", s.set.MaxAhead)
	s.set.LookAhead = int(a.int("look-ahead", int64(s.set.LookAhead)))
	s.set.Jitter = -1
	s.set.Ordered = s.set.Ordered || a.has("ordered")
}

func (s *script) start(a args) {
	s.settings(a)
	s.saved = offsetstore.Value{Position: a.int("position", 0), High: a.int("position", 0)}
	s.m = New(s.set, s.saved, s.now, nil)
}

// crash starts again from what is saved and the high mark.
func (s *script) crash(a args) {
	s.settings(a)
	s.saved.High = max(s.saved.High, s.m.High())
	s.now = s.now.Add(a.duration("down", 0))
	s.m = New(s.set, s.saved, s.now, nil)
	s.sent = nil
	s.state(args{})
}

func (s *script) stream(a args) StreamID { return StreamID(a.int("on", 1)) }

func (s *script) attach(a args) {
	s.m.Attach(StreamID(a.offsets()[0]), a.duration("timeout", 0))
}

func (s *script) detach(a args) {
	s.m.Detach(s.now, StreamID(a.offsets()[0]), a.has("broken"))
}

// deliver offers offsets and sends what may be sent. key=N is the key of all.
func (s *script) deliver(a args) {
	var send []Item
	var verdicts []string
	words := map[Verdict]string{Skip: "skip", Hold: "hold", Full: "full"}
	for _, off := range a.offsets() {
		key := uint64(a.int("key", 0))
		s.keys[off] = key
		v := s.m.Offer(off, key)
		if v == Send {
			send = append(send, Item{Offset: off, Attempt: 1})
			continue
		}
		verdicts = append(verdicts, fmt.Sprintf("%d %s", off, words[v]))
		if v == Full {
			break
		}
	}
	if len(verdicts) > 0 {
		s.printf("%s", strings.Join(verdicts, ", "))
	}
	s.send(s.stream(a), send)
}

// retry sends what Next lists.
func (s *script) retry(a args) {
	var send []Item
	for _, it := range s.m.Next(int(a.int("max", 1000))) {
		switch s.m.Confirm(it.Offset, s.keys[it.Offset]) {
		case Send:
			send = append(send, it)
		case Hold:
			s.printf("%d hold", it.Offset)
		}
	}
	if len(send) == 0 {
		s.printf("nothing")
	}
	s.send(s.stream(a), send)
}

// send sends items in batches and prints them as runs of equal attempts.
func (s *script) send(id StreamID, items []Item) {
	for len(items) > 0 {
		n := min(len(items), MaxBatch)
		var offs []int64
		for i, it := range items[:n] {
			offs = append(offs, it.Offset)
			s.sent = append(s.sent, scriptDelivery{id, s.ids, 1 << i, it.Offset})
		}
		s.m.Sent(id, s.ids, offs)
		s.m.Handed(s.now, id, s.ids)
		s.printf("sent %s", showItems(items[:n]))
		s.ids += uint64(n)
		items = items[n:]
	}
}

func showItems(items []Item) string {
	var out []string
	for i := 0; i < len(items); {
		j := i + 1
		for j < len(items) && items[j].Offset == items[j-1].Offset+1 && items[j].Attempt == items[i].Attempt {
			j++
		}
		text := fmt.Sprintf("%v (attempt %d)", offset.Range{First: items[i].Offset, Last: items[j-1].Offset}, items[i].Attempt)
		if items[i].Alone {
			text += " alone"
		}
		out = append(out, text)
		i = j
	}
	return strings.Join(out, ", ")
}

// each calls fn for the deliveries of the named offsets: the latest on the
// stream, or with old the first one.
func (s *script) each(a args, fn func(d scriptDelivery) Outcome) {
	told := map[string]*offset.Set{"waiting": {}, "done": {}, "unknown": {}}
	for _, off := range a.offsets() {
		d, ok := s.delivery(s.stream(a), off, a.has("old"))
		o := Outcome{Unknown: 1}
		if ok {
			o = fn(d)
		}
		one := offset.Range{First: off, Last: off}
		switch {
		case o.Waiting != 0:
			told["waiting"].Add(one)
		case o.Done != 0:
			told["done"].Add(one)
		default:
			told["unknown"].Add(one)
		}
	}
	for _, word := range []string{"waiting", "done", "unknown"} {
		if !told[word].Empty() {
			s.printf("%s %s", word, showRanges(told[word].Ranges()))
		}
	}
}

func (s *script) delivery(id StreamID, off int64, old bool) (found scriptDelivery, ok bool) {
	for _, d := range s.sent {
		if d.s == id && d.off == off && (!old || !ok) {
			found, ok = d, true
		}
	}
	return found, ok
}

func (s *script) ack(a args) {
	s.each(a, func(d scriptDelivery) Outcome { return s.m.Ack(s.now, d.s, d.first, d.bit) })
}

func (s *script) nack(a args) {
	s.each(a, func(d scriptDelivery) Outcome {
		return s.m.Nack(s.now, d.s, d.first, d.bit, a.duration("delay", -1), a.has("dead"), a.options["reason"])
	})
}

func (s *script) extend(a args) {
	s.each(a, func(d scriptDelivery) Outcome { return s.m.Extend(s.now, d.s, d.first, d.bit, a.duration("by", 0)) })
}

func (s *script) tick(a args) {
	s.now = s.now.Add(mustDuration(a.words[0]))
	var timedOut offset.Set
	for _, g := range s.m.Tick(s.now) {
		s.offsetsOf(g, &timedOut)
	}
	if !timedOut.Empty() {
		s.printf("timed out %s", showRanges(timedOut.Ranges()))
	}
}

func (s *script) offsetsOf(g Given, to *offset.Set) {
	for _, d := range s.sent {
		if d.s == g.Stream && d.first == g.First && d.bit&g.Mask != 0 {
			to.Add(offset.Range{First: d.off, Last: d.off})
		}
	}
}

func (s *script) commit(a args) {
	s.snapshot(a)
	s.end(a)
}

func (s *script) snapshot(a args) {
	s.saving = s.m.Snapshot()
	if !a.has("quiet") {
		s.printf("save %s", showValue(s.saving))
	}
}

func (s *script) end(a args) {
	ok := !a.has("fail")
	if ok {
		s.saved = s.saving
	}
	var told offset.Set
	for _, answer := range s.m.EndCommit(s.now, ok) {
		s.offsetsOf(answer.Given, &told)
	}
	word := "durable"
	if !ok {
		word = "retry"
	}
	if !told.Empty() && !a.has("quiet") {
		s.printf("%s %s", word, showRanges(told.Ranges()))
	}
}

func showValue(v offsetstore.Value) string {
	out := fmt.Sprintf("position %d high %d", v.Position, v.High)
	if v.Epoch > 0 {
		out = fmt.Sprintf("epoch %d ", v.Epoch) + out
	}
	if len(v.Finished) > 0 {
		out += " finished " + showRanges(v.Finished)
	}
	for _, a := range v.Attempts {
		out += fmt.Sprintf("\n  %v: sent %d spent %d breaks %d", a.Range, a.Sent, a.Spent, a.Breaks)
		if a.Due > 0 {
			out += fmt.Sprintf(" due %v", time.UnixMilli(a.Due).Sub(scriptStart))
		}
	}
	return out
}

func showRanges(ranges []offset.Range) string {
	var out []string
	for _, r := range ranges {
		out = append(out, r.String())
	}
	return strings.Join(out, " ")
}

func (s *script) reset(a args) {
	var stale offset.Set
	for _, g := range s.m.Reset(uint64(a.int("epoch", 1)), a.offsets()[0]) {
		s.offsetsOf(g, &stale)
	}
	if !stale.Empty() {
		s.printf("stale %s", showRanges(stale.Ranges()))
	}
}

func (s *script) dead(args) {
	for _, d := range s.m.Dead() {
		s.printf("dead %d after %d: %s %s", d.Offset, d.Attempts, d.Reason, d.Detail)
	}
}

func (s *script) state(args) {
	st := s.m.Stats()
	out := fmt.Sprintf("position %d of %d, high %d", s.m.Position(), s.m.NextNew(), st.High)
	for _, n := range []struct {
		name string
		n    int64
	}{{"in flight", int64(st.InFlight)}, {"waiting", int64(st.Waiting)}, {"ahead", st.FinishedAhead}, {"held", int64(st.Held)}, {"dying", int64(st.Dying)}} {
		if n.n > 0 {
			out += fmt.Sprintf(", %s %d", n.name, n.n)
		}
	}
	if st.PausedBy != "" {
		out += ", paused by " + st.PausedBy
	}
	if s.m.Dirty() {
		out += ", dirty"
	}
	s.printf("%s", out)
}

func (s *script) deadline(args) {
	at, ok := s.m.Deadline()
	if !ok {
		s.printf("no deadline")
		return
	}
	s.printf("deadline in %v", at.Sub(s.now))
}
