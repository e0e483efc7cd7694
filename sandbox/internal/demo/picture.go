package demo

import (
	"encoding/xml"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

// moment is something that happened during the demo.
type moment struct {
	at   time.Time
	text string
}

// picture is an SVG of the requests of a demo: over time, the share of each version, and of
// the requests that failed.
type picture struct {
	from, to time.Time
	answers  []traffic.Answer
	// above and below are what is said over the chart and under it, where it happened.
	above, below []moment
}

// The measures of a picture, in pixels. The chart has a margin for its texts.
const (
	pictureWidth, pictureHeight = 860, 250
	chartLeft, chartTop         = 50, 60
	chartWidth, chartHeight     = 790, 130
	// bucket is the time in which requests are counted together.
	bucket = 500 * time.Millisecond
)

// failed is the layer of requests that have failed, of whichever version.
const failed = "failed"

// layers are the shares from the bottom to the top, with their colours and names.
var layers = []struct{ key, fill, name string }{
	{"blue", "#5b8def", "blue: the stable version"},
	{"yellow", "#f2c14e", "yellow: the new version"},
	{"green", "#57b894", "green: a bad version"},
	{failed, "#d1343f", "failed requests"},
}

// write writes the picture to a file.
func (p picture) write(file string) error {
	svg, err := p.svg()
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(svg), 0o644)
}

func (p picture) svg() (string, error) {
	counts := make([]map[string]int, p.to.Sub(p.from)/bucket)
	for i := range counts {
		counts[i] = map[string]int{}
	}
	for _, a := range p.answers {
		i := int(a.Sent.Sub(p.from) / bucket)
		if a.Sent.Before(p.from) || i >= len(counts) {
			continue
		}
		key := a.Backend
		if a.Failed() {
			key = failed
		}
		counts[i][key]++
	}
	var out strings.Builder
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(&out, format+"\n", args...) }
	say(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="13" fill="#24292f">`, pictureWidth, pictureHeight)
	say(`<title>Shares of the versions in %d requests of a canary</title>`, len(p.answers))
	say(`<rect width="%d" height="%d" rx="6" fill="#fff"/>`, pictureWidth, pictureHeight)
	x := chartLeft
	for _, layer := range layers {
		say(`<rect x="%d" y="14" width="12" height="12" fill="%s"/><text x="%d" y="25">%s</text>`, x, layer.fill, x+17, layer.name)
		x += 190
	}
	// Each layer covers the lower part of those before it.
	tops := make([]float64, len(counts)+1)
	var paths []string
	for _, layer := range layers {
		floor := slices.Clone(tops)
		for i, count := range counts {
			all := 0
			for _, n := range count {
				all += n
			}
			if all == 0 {
				return "", fmt.Errorf("no request was sent in the %s from %s on", bucket, p.from.Add(time.Duration(i)*bucket).Format(time.TimeOnly))
			}
			tops[i] += float64(count[layer.key]) / float64(all)
		}
		if !slices.Equal(floor, tops) {
			paths = append(paths, fmt.Sprintf(`<path fill="%s" d="%s"/>`, layer.fill, p.area(floor[:len(counts)], tops[:len(counts)])))
		}
	}
	say("%s", strings.Join(paths, "\n"))
	for _, percent := range []int{0, 50, 100} {
		y := chartTop + chartHeight - percent*chartHeight/100
		say(`<text x="%d" y="%d" text-anchor="end" font-size="11">%d %%</text>`, chartLeft-6, y+4, percent)
	}
	for _, m := range p.above {
		x := p.x(m.at)
		say(`<path stroke="#24292f" stroke-dasharray="3 3" d="M%.0f %dV%d"/><text x="%.0f" y="%d" text-anchor="middle">%s</text>`, x, chartTop-6, chartTop+chartHeight, x, chartTop-11, escaped(m.text))
	}
	for _, m := range p.below {
		x := p.x(m.at)
		say(`<path stroke="#24292f" d="M%.0f %dv14"/><text x="%.0f" y="%d">%s</text>`, x, chartTop+chartHeight, x+5, chartTop+chartHeight+14, escaped(m.text))
	}
	say(`<text x="%d" y="%d" font-size="11" fill="#57606a">%s</text>`, chartLeft, pictureHeight-12,
		escaped(fmt.Sprintf("%.0f seconds of make demo, %d requests a second", p.to.Sub(p.from).Seconds(), rate)))
	say("</svg>")
	return out.String(), nil
}

// x is where a time is in the chart.
func (p picture) x(at time.Time) float64 {
	return chartLeft + chartWidth*float64(at.Sub(p.from))/float64(p.to.Sub(p.from).Truncate(bucket))
}

// area is the outline of a layer between two heights for each bucket.
func (p picture) area(low, high []float64) string {
	y := func(share float64) float64 { return chartTop + chartHeight*(1-share) }
	var out strings.Builder
	_, _ = fmt.Fprintf(&out, "M%d %.1f", chartLeft, y(low[0]))
	line := func(i int, share float64) {
		_, _ = fmt.Fprintf(&out, "V%.1fH%.1f", y(share), p.x(p.from.Add(time.Duration(i)*bucket)))
	}
	for i, share := range high {
		line(i+1, share)
	}
	for i := len(low) - 1; i >= 0; i-- {
		line(i, low[i])
	}
	return out.String() + "Z"
}

func escaped(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // a Builder takes all
	return out.String()
}
