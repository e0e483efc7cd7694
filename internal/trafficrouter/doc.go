// Package trafficrouter is the frame of a traffic router plugin of Argo Rollouts: the
// calls of the RPC, a lock and a time limit for each Rollout, the plan of a call, when a
// problem is an error and when the split is held, Events, the memory of unchanged calls,
// self-healing, and what Rollouts that are gone have left on objects.
//
// A router brings three things, as a Backend: which objects a Rollout means (Configure); a
// pure function from an object and a plan to the object as it should be (Decide, Release);
// and what the data plane says of it (Verify). A Store reads and writes the objects.
//
// # From the call to the patch
//
// SetWeight → serve (lock, time limit, memory) → shift (error, hold, or go on) → find (the
// objects) → decide (each object, before the first is written) → write (again after a
// conflict) → Store.Write.
//
// # Rules
//
//   - Weight 0 always takes the traffic back: a problem with the Rollout is a warning, and
//     an object that cannot be read or written does not keep the others from it.
//   - Above weight 0 nothing is written unless all objects are there and decided.
//   - Above weight 0 a Rollout with a problem that has something in place keeps that, with
//     an Event and no error, so that the controller goes on to its analysis and its abort.
//     With nothing in place the problem is the call's error.
//   - A write that the API server refuses is held in the same way, but only for a weight
//     that is not below the one in place, or above 0 on the way back to stable (an abort or
//     a rollback). There a refused read is held, too, and a maximum weight that is held
//     counts as verified: the controller scales stable up only after that.
//   - What happens on an object that the Rollout does not name is a warning, and is tried
//     again.
package trafficrouter
