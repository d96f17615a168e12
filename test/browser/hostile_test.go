package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// image is what a process can be called: a file's name has no slash in it.
const image = `<img src=x onerror="window.pwned=1">`

// hostileNames are names that a profile may hold.
func hostileNames() []string {
	return []string{
		image,
		`<script>window.pwned=1</script>`,
		`"><svg onload=window.pwned=1>`,
		`'};window.pwned=1;//`,
		`</title></script><iframe src="http://192.0.2.1/"></iframe>`,
		`<a href="javascript:window.pwned=1">main</a>`,
		`javascript:window.pwned=1`,
		`<base href="http://192.0.2.1/"><form action=x>`,
		"__proto__", "constructor", "toString",
		"\u202egnp.exe\u2066", "line\nbreak\tand\x00zero\x1b[31m",
		`${window.pwned=1}{{constructor.constructor("window.pwned=1")()}}`,
		strings.Repeat("long<b>", 10000),
	}
}

// hostilePayload has those names everywhere where a payload has strings.
func hostilePayload(at time.Time) *payload {
	p := newPayload(at)
	for i, name := range hostileNames() {
		pr := p.profile(name, map[string]string{"service.name": name, "container.id": name, "k8s.pod.name": name, name: name})
		thread, own := p.attribute("thread.name", name), p.attribute(name, name)
		stopped := p.attribute("hostprofiles.stack.stop_reason", name)
		locations := []int32{p.location("outer "+fmt.Sprint(i), "native"), p.location(name, name), p.location("inner "+name, "native")}
		// Often, so that what else happens on the host does not push it out of lists of the most frequent.
		for k := range 300 {
			p.sample(pr, locations, int64(1+i), time.Duration(i)*100*time.Millisecond+time.Duration(k)*time.Millisecond, thread, own, stopped)
		}
	}
	return p
}

// TestHostileNames shows names that are HTML and scripts, from a producer elsewhere and from a process of this host. None of
// them may become more than text.
func TestHostileNames(t *testing.T) {
	profiles(t)
	c := startCollector(t, "hostprofiles", "otlp")
	from := time.Now().Add(-30 * time.Second)
	if err := c.send(hostilePayload(time.Now().Add(-15 * time.Second)).marshal(t)); err != nil {
		t.Fatal(err)
	}
	running := start(t, program(t, "c", image))
	c.more(t, image, 100)
	running.Stop()
	var seen struct {
		Active map[string][]string
		Texts  map[string]string
		Marker string
	}
	drive(t, c, "hostile", map[string]any{
		"from": from.UnixMilli(), "to": time.Now().UnixMilli(), "search": image, "process": image,
	}, &seen)
	if len(seen.Active) < 10 {
		t.Errorf("only %d places were looked at", len(seen.Active))
	}
	for where, active := range seen.Active {
		for _, a := range active {
			t.Errorf("%s: a name has come to life: %s", where, a)
		}
	}
	if !strings.HasPrefix(seen.Marker, "[truncated: "+image+"]") {
		t.Errorf("where callers are missing stands %q", seen.Marker)
	}
	// Shown as what it is: otherwise nothing would have been tested.
	for _, where := range []string{"details", "marker", "tooltip", "menu", "crumbs", "filter 0", "status", "link flame", "link table", "link sandwich"} {
		if !strings.Contains(seen.Texts[where], image) {
			t.Errorf("%s: the name is not shown", where)
		}
	}
}
