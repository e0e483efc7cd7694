package kube

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func object(version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app", ResourceVersion: version}}
}

func TestWritten(t *testing.T) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	w := newWritten[*metav1.PartialObjectMetadata](store)
	events := w.handler()
	put := func(version string) {
		if err := store.Add(object(version)); err != nil {
			t.Fatal(err)
		}
	}
	latest := func(want string) {
		t.Helper()
		got, found, err := w.get("demo/app")
		if err != nil || !found {
			t.Fatalf("found %t, %v", found, err)
		}
		if got.ResourceVersion != want {
			t.Errorf("latest is %s, want %s", got.ResourceVersion, want)
		}
	}
	put("9")
	w.put(object("10"))
	latest("10")
	// An event of an older state, sent before the write arrived, changes nothing.
	events.OnUpdate(object("8"), object("9"))
	latest("10")
	// The watch catches up, and goes on.
	put("10")
	events.OnUpdate(object("9"), object("10"))
	put("11")
	latest("11")
	if len(w.objects) != 0 {
		t.Errorf("%d writes kept after the watch has them", len(w.objects))
	}
	// The answer to a write comes after the watch has shown a later state.
	w.put(object("10"))
	if len(w.objects) != 0 {
		t.Error("an answer older than the watch is kept")
	}
	// Deleted after the write, and deleted before its answer.
	w.put(object("12"))
	events.OnDelete(cache.DeletedFinalStateUnknown{Key: "demo/app", Obj: object("11")})
	if len(w.objects) != 0 {
		t.Error("the write of a deleted object is kept")
	}
}

// TestAnObjectThatTheWatchDoesNotShow: such an object is found by the answer to its
// write, for a while. The watch may be behind, or the object may have been deleted since.
func TestAnObjectThatTheWatchDoesNotShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWritten[*metav1.PartialObjectMetadata](cache.NewStore(cache.MetaNamespaceKeyFunc))
		found := func() bool {
			t.Helper()
			_, found, err := w.get("demo/app")
			if err != nil {
				t.Fatal(err)
			}
			return found
		}
		w.put(object("13"))
		w.put(object("12"))
		if got, ok, _ := w.get("demo/app"); !ok || got.ResourceVersion != "13" {
			t.Errorf("found %t, %v, want the later of two answers", ok, got)
		}
		time.Sleep(unseenFor - time.Second)
		if !found() {
			t.Error("not found while the watch may be behind")
		}
		time.Sleep(time.Second)
		if found() || len(w.objects) != 0 {
			t.Error("an object that the watch has not shown in all that time is still found")
		}
	})
}

// TestWrittenBeforeTheFirstList: a write comes after the API server has made the first
// list and before the list arrives.
func TestWrittenBeforeTheFirstList(t *testing.T) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	w := newWritten[*metav1.PartialObjectMetadata](store)
	w.put(object("10"))
	if err := store.Add(object("9")); err != nil {
		t.Fatal(err)
	}
	w.handler().OnAdd(object("9"), true)
	if got, found, _ := w.get("demo/app"); !found || got.ResourceVersion != "10" {
		t.Errorf("the list's older state is read: %v", got)
	}
	// Without a watch, a read or its 404 removes the write that is kept.
	w.forgetCaughtUp(object("10"))
	if len(w.objects) != 0 {
		t.Error("a write is kept after a read has seen it")
	}
	w.put(object("11"))
	w.forgetDeleted("demo/app")
	if len(w.objects) != 0 {
		t.Error("a write is kept after the object is gone")
	}
}

// TestReadsNeverGoBack: with a watch that catches up at any moment, a read after
// a write is never older than the write.
func TestReadsNeverGoBack(t *testing.T) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	w := newWritten[*metav1.PartialObjectMetadata](store)
	events := w.handler()
	if err := store.Add(object("1")); err != nil {
		t.Fatal(err)
	}
	watch := make(chan *metav1.PartialObjectMetadata, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for obj := range watch {
			if err := store.Update(obj); err != nil {
				t.Error(err)
			}
			events.OnUpdate(nil, obj)
		}
	}()
	for version := 2; version < 20000; version++ {
		answer := object(strconv.Itoa(version))
		watch <- answer
		w.put(answer)
		for range 3 {
			if got, _, err := w.get("demo/app"); err != nil || older(got, answer) {
				t.Fatalf("read %s after writing %d (%v)", got.ResourceVersion, version, err)
			}
		}
	}
	close(watch)
	<-done
}

func TestOlder(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{{"9", "10", true}, {"10", "9", false}, {"10", "10", false}, {"x", "y", true}, {"x", "x", false}} {
		if got := older(object(tc.a), object(tc.b)); got != tc.want {
			t.Errorf("older(%s, %s) = %t", tc.a, tc.b, got)
		}
	}
}
