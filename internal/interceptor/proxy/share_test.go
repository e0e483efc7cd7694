package proxy

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// What a part leaves of its equal part goes to the others, whose part is larger then; so one
// that was above it may be within it, and leave something as well.
func TestFairShare(t *testing.T) {
	all := newShare(nil)
	asking := all.part("asking")
	for name, used := range map[string]int64{"asking": 17, "small": 5, "middle": 28, "large": 50} {
		all.part(name).used[inBytes] = used
	}
	// An equal part is 25. Beside small it is 95/3, within which middle is; beside both 67/2.
	if got := all.fair(100, asking, inBytes, 40); got != 33 {
		t.Errorf("each may have %d of 100, want 33", got)
	}
	// With 4 more the one that asks is within an equal part as well.
	if got := all.fair(100, asking, inBytes, 4); got != 46 {
		t.Errorf("each may have %d of 100, want 46, what the three small ones leave", got)
	}
}

// game applies moves to a waiting room, and checks the result of each.
type game struct {
	t       testing.TB
	room    *waitingRoom
	moves   []byte
	waiters []*waiter        // that have not left
	gone    map[*waiter]bool // which of waiters were evicted before this move
	history []string
}

// unit is the unit of amounts in a game, in bytes.
const unit = 64 << 10

func (g *game) next(below int) int {
	if len(g.moves) == 0 {
		return 0
	}
	n := int(g.moves[0]) % below
	g.moves = g.moves[1:]
	return n
}

// play plays all moves, and checks that each is fair.
func play(t testing.TB, moves []byte) {
	g := &game{t: t, moves: moves}
	g.room = newWaitingRoom(&Settings{
		MaxHeld: g.next(20), MaxHeldPerRoute: 1 + g.next(20), MaxHeldBytes: int64(g.next(100)) * unit,
	})
	for len(g.moves) > 0 {
		before := g.standing()
		g.gone = make(map[*waiter]bool)
		for _, at := range g.waiters {
			g.gone[at] = at.left
		}
		if len(g.waiters) > 0 && g.next(5) == 0 {
			i := g.next(len(g.waiters))
			g.say("leave %d", i)
			g.room.leave(g.waiters[i])
			g.waiters = slices.Delete(g.waiters, i, i+1)
		} else {
			name := types.NamespacedName{Namespace: fmt.Sprint("n", g.next(4)), Name: fmt.Sprint("o", g.next(3))}
			bytes := int64(g.next(6))*unit + 1
			at := g.room.enter(name, bytes)
			g.say("enter %v with %d: %v", name, bytes, at != nil)
			if at != nil {
				g.waiters = append(g.waiters, at)
			}
			if before.of(name)[inRequests] < g.room.maxPerRoute {
				g.judge(before, name, amount{1, bytes}, at != nil)
			}
		}
		g.check()
	}
	for _, at := range g.waiters {
		g.room.leave(at)
	}
	g.waiters = nil
	g.check()
	if len(g.room.cold)+len(g.room.all.parts) > 0 || g.room.all.used != (amount{}) {
		g.fail("an empty room has %d objects, %d namespaces, and %v used", len(g.room.cold), len(g.room.all.parts), g.room.all.used)
	}
}

func (g *game) say(format string, args ...any) {
	g.history = append(g.history, fmt.Sprintf(format, args...))
}

func (g *game) fail(format string, args ...any) {
	g.t.Helper()
	g.t.Fatalf("%s\nroom for %v, after %q", fmt.Sprintf(format, args...), g.room.most, g.history)
}

// standing is how much of the waiting room each object uses.
type standing map[types.NamespacedName]amount

func (s standing) of(name types.NamespacedName) amount { return s[name] }

func (s standing) namespace(name string) (sum amount) {
	for object, has := range s {
		if object.Namespace == name {
			for of := range sum {
				sum[of] += has[of]
			}
		}
	}
	return sum
}

// standing adds up what the requests that wait use.
func (g *game) standing() standing {
	s := make(standing)
	for _, at := range g.waiters {
		if !at.left {
			has := s[at.cold.name]
			has[inRequests]++
			has[inBytes] += at.bytes
			s[at.cold.name] = has
		}
	}
	return s
}

// check compares what the room has counted with what the waiters have.
func (g *game) check() {
	g.t.Helper()
	var all amount
	namespaces := make(map[string]amount)
	now := g.standing()
	for name, has := range now {
		namespaces[name.Namespace] = now.namespace(name.Namespace)
		if counted := g.room.all.byName[name.Namespace].byName[name.Name]; counted.used != has || counted.waiting.Len() != int(has[inRequests]) {
			g.fail("%v has %v of %d waiters, %v were counted", name, has, counted.waiting.Len(), counted.used)
		}
		for of := range all {
			all[of] += has[of]
		}
	}
	for name, has := range namespaces {
		if g.room.all.byName[name].used != has {
			g.fail("namespace %s has %v, %v were counted", name, has, g.room.all.byName[name].used)
		}
	}
	if all != g.room.all.used {
		g.fail("all have %v, %v were counted", all, g.room.all.used)
	}
	for of := range all {
		if all[of] > g.room.most[of] {
			g.fail("%v are used", all)
		}
	}
	for _, at := range g.waiters {
		select {
		case <-at.evicted:
			if !at.left {
				g.fail("%v is told to leave, and waits still", at.cold.name)
			}
		default:
			if at.left {
				g.fail("%v was evicted, and not told", at.cold.name)
			}
		}
	}
}

// judge checks that a request that asked for more got it if that is within an equal
// share, and that no object within an equal share lost a request for it.
func (g *game) judge(before standing, name types.NamespacedName, more amount, ok bool) {
	g.t.Helper()
	now, total := g.standing(), g.room.all.used
	namespaces, objects := map[string]bool{name.Namespace: true}, map[string]bool{name.Name: true}
	for object := range before {
		namespaces[object.Namespace] = true
		if object.Namespace == name.Namespace {
			objects[object.Name] = true
		}
	}
	own, whole, within := before.of(name), before.namespace(name.Namespace), true
	for of := range more {
		equal := g.room.most[of] / int64(len(namespaces))
		within = within && (whole[of]+more[of] <= equal || own[of]+more[of] <= equal/int64(len(objects)))
	}
	if within && !ok {
		g.fail("%v is within an equal share, and is turned away", name)
	}
	for object, had := range before {
		lost := had[inRequests] - now[object][inRequests]
		if lost <= 0 {
			continue
		}
		if !ok {
			g.fail("%v lost %d for a request that did not get in", object, lost)
		}
		if object == name {
			g.fail("%v lost %d to itself", object, lost)
		}
		above := false
		for of := range more {
			above = above || before.namespace(object.Namespace)[of] > g.room.most[of]/int64(len(namespaces)) ||
				object.Namespace == name.Namespace && had[of] > g.room.most[of]/int64(len(namespaces))/int64(len(objects))
		}
		if !above {
			g.fail("%v lost %d, though it had no more than an equal share; %v are used now", object, lost, total)
		}
	}
	// An object's newest request is turned away first.
	gone := make(map[types.NamespacedName]bool)
	for _, p := range g.waiters {
		switch {
		case g.gone[p]:
		case p.left:
			gone[p.cold.name] = true
		case gone[p.cold.name]:
			g.fail("%v lost a request that was not its newest", p.cold.name)
		}
	}
}

func FuzzWaitingRoom(f *testing.F) {
	f.Add([]byte("\x00\x0a\x05\x20aaaaaaaaabbbbbbbbbccccccccc"))
	f.Fuzz(func(t *testing.T, moves []byte) { play(t, moves) })
}

// The room keeps its bounds and is fair, whatever the moves.
func TestWaitingRoomHoldsWhateverComes(t *testing.T) {
	const games, longest = 5000, 400
	for i := range uint64(games) {
		random := rand.New(rand.NewPCG(i, 13))
		moves := make([]byte, random.IntN(longest))
		for i := range moves {
			moves[i] = byte(random.Uint32())
		}
		play(t, moves)
	}
}

// The room is never over-full, even if requests enter and leave concurrently.
func TestWaitingRoomIsNeverOverfull(t *testing.T) {
	room := newWaitingRoom(&Settings{MaxHeld: 50, MaxHeldPerRoute: 20, MaxHeldBytes: 40 * unit})
	var wg sync.WaitGroup
	for i := range uint64(16) {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(i, 13))
			for range 3000 {
				name := types.NamespacedName{Namespace: fmt.Sprint(random.IntN(4)), Name: fmt.Sprint(random.IntN(3))}
				at := room.enter(name, 1+random.Int64N(2*unit))
				room.mu.Lock()
				used := room.all.used
				room.mu.Unlock()
				for of := range used {
					if used[of] > room.most[of] {
						t.Errorf("%v are used of %v", used, room.most)
						return
					}
				}
				if at == nil {
					continue
				}
				if random.IntN(2) == 0 {
					room.waitLonger(at)
				}
				if random.IntN(10) > 0 {
					room.leave(at)
				}
			}
		})
	}
	wg.Wait()
	room.mu.Lock()
	var rest []*waiter
	for _, c := range room.cold {
		for e := c.object.waiting.Front(); e != nil; e = e.Next() {
			rest = append(rest, e.Value.(*waiter))
		}
	}
	room.mu.Unlock()
	for _, at := range rest {
		room.leave(at)
	}
	if room.all.used != (amount{}) || len(room.cold) > 0 {
		t.Errorf("%v are used at the end, by %v", room.all.used, slices.Collect(maps.Keys(room.cold)))
	}
}
